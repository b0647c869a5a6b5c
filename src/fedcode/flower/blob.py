"""A message of fedcode in Flower's records, and a model's arrays in Flower's form and back.

One message is one Array of bytes in an ArrayRecord: Flower cuts Arrays into pieces, ConfigRecords not.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, RecordDict

from fedcode.errors import MessageError

NAME = "fedcode.bytes"
_NUMPY = "numpy.ndarray"  # what Flower calls the form of numpy.save


def record_of(data: bytes) -> ArrayRecord:
    """The record that carries a message.

    >>> bytes_of(record_of(b"message"))
    b'message'
    """
    record = ArrayRecord()
    record[NAME] = Array("uint8", (len(data),), NAME, data)
    return record


def bytes_of(record: ArrayRecord) -> bytes | None:
    """The message in a record; None where it holds something else."""
    array = record.get(NAME)
    return array.data if array is not None and array.stype == NAME and len(record) == 1 else None


def find(content: RecordDict) -> tuple[str, bytes] | None:
    """The key of the record that carries a message, and the message; None where there is none.

    >>> find(RecordDict({"arrays": record_of(b"message")}))
    ('arrays', b'message')
    """
    for key, record in content.array_records.items():
        data = bytes_of(record)
        if data is not None:
            return key, data
    return None


def arrays_of(record: ArrayRecord) -> dict[str, npt.NDArray[Any]]:
    """The model in an ordinary record, as arrays that are views of its bytes.

    >>> arrays_of(record_of_arrays({"w": np.arange(3)}))
    {'w': array([0, 1, 2])}
    """
    return {name: _view(name, array) for name, array in record.items()}


def record_of_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> ArrayRecord:
    """An ordinary record as Flower makes it, with one copy of the values where Flower makes three."""
    record = ArrayRecord()
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array).reshape(array.shape)
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(plain))
        data = b"".join((header.getvalue(), plain.reshape(-1).view(np.uint8).data))
        record[name] = Array(str(plain.dtype), tuple(plain.shape), _NUMPY, data)
    return record


def _view(name: str, array: Array) -> npt.NDArray[Any]:
    if array.stype != _NUMPY:
        raise MessageError(f"{name!r} is in the form {array.stype!r}; {_NUMPY!r} is expected.")
    head = io.BytesIO(array.data)
    try:
        version = np.lib.format.read_magic(head)
        if version != (1, 0):  # names or shapes that are out of the ordinary: as Flower reads them
            return np.asarray(array.numpy())
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
        if dtype.hasobject or fortran:
            return np.asarray(array.numpy())
    except (ValueError, EOFError) as error:
        raise MessageError(f"{name!r} cannot be read as an array: {error}") from error
    count = int(np.prod(shape, dtype=np.int64))
    if len(array.data) - head.tell() != count * dtype.itemsize:
        raise MessageError(f"{name!r} has not as many bytes as its shape {shape} of {dtype} needs.")
    return np.frombuffer(array.data, dtype, count, head.tell()).reshape(shape)
