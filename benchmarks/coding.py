"""Labels to bytes and back: sizes beside their entropy, speeds beside np.packbits, zstandard, constriction and pcodec.

    python benchmarks/coding.py [--json results/coding.json] [--count 3000000]

All runs on one thread and is measured by the processor's time of that thread, the best of several tries, so that a
busy machine disturbs it less; shares of pcodec's speed are medians over the tries. A speed is millions of labels (of
positions: of what they are positions of) a second.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["FEDCODE_THREADS"] = "1"

import numpy as np
from machine import machine

from fedcode.coding import (
    decode_labels,
    decode_positions,
    encode_labels,
    encode_positions,
    pack,
    unpack,
)
from fedcode.packing import label_bits, label_type
from fedcode.streams import pages
from fedcode.symbols import Survey, _levels

TRIES = 9
PACKED = (2, 4, 16, 64, 128, 256, 1024, 4096)


def seconds(**works: Callable[[], object]) -> dict[str, list[float]]:
    """How long each takes, tried in turn, so that all meet the same disturbances."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()  # compiled, loaded, in the cache
    for _ in range(TRIES):
        for name, work in works.items():
            began = time.thread_time()
            work()
            taken[name].append(time.thread_time() - began)
    return taken


def rates(count: int, **works: Callable[[], object]) -> dict[str, float]:
    """Millions a second of each."""
    return {name: round(count / min(taken) / 1e6, 1) for name, taken in seconds(**works).items()}


def share(of: list[float], peer: list[float]) -> float:
    """One's speed as a share of its peer's: the median over tries, each beside the peer's of the same moment."""
    return round(float(np.median(np.array(peer) / np.array(of))), 3)


def entropy(counts: Any) -> float:
    """The order-0 entropy of numbers that occur so often, in bytes."""
    counts = counts[counts > 0]
    return float((counts * np.log2(counts.sum() / counts)).sum()) / 8


def bell(count: int, k: int, rng: np.random.Generator, width: float = 1 / 7) -> Any:
    """Labels as clustered weights have them: mostly near the middle."""
    return np.clip(np.rint(rng.normal(k / 2 - 0.5, k * width, count)), 0, k - 1).astype(label_type(k))


def packing(count: int, k: int, rng: np.random.Generator) -> dict[str, Any]:
    """Packing against numpy: packbits of the labels where they are bits, of the bits of bytes where not."""
    row: Any = rng.integers(0, k, count).astype(label_type(k))
    bits, data = label_bits(k), pack(row, k)
    width = 8 * row.itemsize
    raw = row.view(np.uint8).reshape(-1, row.itemsize)

    def numpy_pack() -> object:
        if k == 2:
            return np.packbits(row, bitorder="little")
        return np.packbits(np.unpackbits(raw, axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little")

    def numpy_unpack() -> object:
        flat = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits, bitorder="little")
        if k == 2:
            return flat
        wide = np.zeros((count, width), np.uint8)
        wide[:, :bits] = flat.reshape(count, bits)
        return np.packbits(wide, axis=1, bitorder="little")

    speed = rates(
        count,
        pack=functools.partial(pack, row, k),
        unpack=functools.partial(unpack, data, count, k),
        numpy_pack=numpy_pack,
        numpy_unpack=numpy_unpack,
    )
    assert np.array_equal(unpack(data, count, k), row)
    return {"clusters": k, "bits": bits, "bytes": len(data), "speed": speed}


def entropy_coding(name: str, row: Any, k: int) -> dict[str, Any]:
    """One source: bytes and speeds of fedcode and of its peers."""
    import constriction
    import zstandard
    from pcodec import ChunkConfig, DeltaSpec, ModeSpec, PagingSpec, standalone

    count = row.size
    counts = np.bincount(row, minlength=k)
    survey = Survey.of(row, k)
    level = max(_levels(survey.paged, float(survey.bits.sum())))

    def config(level: int, sizes: list[int]) -> Any:
        return ChunkConfig(
            compression_level=level,
            mode_spec=ModeSpec.classic(),
            delta_spec=DeltaSpec.no_op(),
            paging_spec=PagingSpec.exact_page_sizes(sizes),
            enable_8_bit=True,
        )

    same, eight = config(level, survey.page_sizes), config(8, pages(count))
    zstd, unzstd = zstandard.ZstdCompressor(3), zstandard.ZstdDecompressor()
    model = constriction.stream.model.Categorical((counts / count).astype(np.float64), perfect=False)
    wide = row.astype(np.int32)

    def ranged() -> Any:
        coder = constriction.stream.queue.RangeEncoder()
        coder.encode(wide, model)
        return coder.get_compressed()

    data = encode_labels(row, k, coding="entropy")
    peers = {
        "pcodec": standalone.simple_compress(row, same),
        "pcodec_8": standalone.simple_compress(row, eight),
        "zstandard": zstd.compress(row.tobytes()),
        "constriction": ranged(),
    }
    out = np.empty_like(row)
    taken = seconds(
        encode=lambda: encode_labels(row, k, coding="entropy"),
        pcodec_encode=lambda: standalone.simple_compress(row, same),
        pcodec_8_encode=lambda: standalone.simple_compress(row, eight),
        zstandard_encode=lambda: zstd.compress(row.data),
        constriction_encode=ranged,
        decode=lambda: decode_labels(data, count, k),
        pcodec_decode=lambda: standalone.simple_decompress_into(peers["pcodec"], out),
        zstandard_decode=lambda: unzstd.decompress(peers["zstandard"]),
        constriction_decode=lambda: constriction.stream.queue.RangeDecoder(peers["constriction"]).decode(model, count),
    )
    least = entropy(counts)
    sizes = {"fedcode": len(data), "packed": 1 + len(pack(row, k))}
    sizes |= {name: getattr(found, "nbytes", len(found)) for name, found in peers.items()}
    return {
        "source": name,
        "clusters": k,
        "entropy_bits": round(8 * least / count, 4),
        "pcodec_level": level,
        "bytes": sizes,
        "above_entropy_percent": {name: round(100 * (size / least - 1), 3) for name, size in sizes.items()},
        "speed": {name: round(count / min(times) / 1e6, 1) for name, times in taken.items()},
        "of_pcodec": {
            "encode": share(taken["encode"], taken["pcodec_encode"]),
            "encode_level_8": share(taken["encode"], taken["pcodec_8_encode"]),
            "decode": share(taken["decode"], taken["pcodec_decode"]),
        },
    }


def given_context(count: int, k: int, moved: float, rng: np.random.Generator) -> dict[str, Any]:
    """Labels of weights that drifted, given their old labels. moved: the drift in gaps between centres."""
    from fedcode import cluster
    from fedcode.clustering import nearest

    held = cluster(rng.laplace(0, 1, count).astype(np.float32), k)
    gap = float(np.median(np.diff(held.centers)))
    book = cluster(held.decode() + rng.normal(0, moved * gap, count).astype(np.float32), k, start=held.centers)
    expected = nearest(held.centers, book.centers)[held.labels]
    row: Any = book.labels
    both = np.bincount(held.labels.astype(np.int64) * k + row, minlength=k * k).reshape(k, k)
    least = sum(entropy(counts) for counts in both)
    data = encode_labels(row, k, context=expected)
    assert np.array_equal(decode_labels(data, count, k, context=expected), row)
    return {
        "clusters": k,
        "moved": moved,
        "entropy_bits": round(8 * entropy(np.bincount(row)) / count, 4),
        "conditional_entropy_bits": round(8 * least / count, 4),
        "bytes": len(data),
        "above_conditional_entropy_percent": round(100 * (len(data) / least - 1), 3),
        "speed": rates(
            count,
            encode=lambda: encode_labels(row, k, context=expected),
            decode=lambda: decode_labels(data, count, k, context=expected),
        ),
    }


def sparse(size: int, share: float, rng: np.random.Generator) -> dict[str, Any]:
    """Positions drawn at random."""
    drawn = np.flatnonzero(rng.random(size) < share)
    data = encode_positions(drawn, size)
    assert np.array_equal(decode_positions(data, drawn.size, size), drawn)
    least = entropy(np.array([drawn.size, size - drawn.size]))
    return {
        "share": share,
        "positions": int(drawn.size),
        "bits_a_position": round(8 * len(data) / drawn.size, 3),
        "above_entropy_percent": round(100 * (len(data) / least - 1), 3),
        "speed": rates(
            size,
            encode=lambda: encode_positions(drawn, size),
            decode=lambda: decode_positions(data, drawn.size, size),
        ),
    }


def sources(count: int, rng: np.random.Generator) -> list[tuple[str, Any, int]]:
    found = [(f"bell, K={k}", bell(count, k, rng), k) for k in (16, 64, 128, 256, 1024)]
    zigzag = np.minimum(rng.geometric(0.4, count) - 1, 63).astype(np.uint8)
    found.append(("geometric, as differences are, K=64", zigzag, 64))
    for share in (0.9, 0.97, 0.99):
        rest = (1 - share) / 2
        ternary = rng.choice(3, count, p=[rest, share, rest]).astype(np.uint8)
        found.append((f"three values, {share:.0%} of one", ternary, 3))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write what was measured here")
    parser.add_argument("--count", type=int, default=3_000_000, help="labels in a row")
    given = parser.parse_args()
    count, rng = given.count, np.random.default_rng(0)
    load = os.getloadavg()[0]

    print(f"packing {count:,} labels: M labels/s, and how many times numpy's")
    packed = [packing(count, k, rng) for k in PACKED]
    for line in packed:
        speed = line["speed"]
        print(
            f"  K={line['clusters']:<5} pack {speed['pack']:7.0f} ({speed['pack'] / speed['numpy_pack']:5.1f} x)"
            f"  unpack {speed['unpack']:7.0f} ({speed['unpack'] / speed['numpy_unpack']:5.1f} x)"
        )
    print("entropy coding: bits a label, per cent above the entropy; M labels/s and the share of pcodec's own")
    coded = [entropy_coding(*source) for source in sources(count, rng)]
    for line in coded:
        speed, above, ratio = line["speed"], line["above_entropy_percent"], line["of_pcodec"]
        print(
            f"  {line['source']:36} {line['entropy_bits']:6.3f} +{above['fedcode']:.2f} %"
            f"  {speed['encode']:.0f}/{speed['decode']:.0f} ({ratio['encode']:.2f} encode, {ratio['decode']:.2f} decode"
            f"; {ratio['encode_level_8']:.2f} of level 8)"
            f"  zstd +{above['zstandard']:.0f} % {speed['zstandard_encode']:.0f}/{speed['zstandard_decode']:.0f}"
            f"  constriction +{above['constriction']:.2f} %"
            f" {speed['constriction_encode']:.0f}/{speed['constriction_decode']:.0f}"
        )
    print("given what both ends hold: bits a label at best, per cent above; M labels/s")
    context = [given_context(count, k, moved, rng) for k, moved in ((16, 0.2), (64, 0.2), (64, 0.6), (256, 0.6))]
    for line in context:
        print(
            f"  K={line['clusters']:<4} {line['conditional_entropy_bits']:.3f} of {line['entropy_bits']:.3f}"
            f"  +{line['above_conditional_entropy_percent']:.2f} %"
            f"  {line['speed']['encode']:.0f}/{line['speed']['decode']:.0f}"
        )
    print("positions: bits each, per cent above the entropy; M values/s")
    positions = [sparse(count, share, rng) for share in (0.001, 0.01, 0.1, 0.3)]
    for line in positions:
        print(
            f"  {line['share']:6.1%} {line['bits_a_position']:7.3f}  +{line['above_entropy_percent']:.2f} %"
            f"  {line['speed']['encode']:.0f}/{line['speed']['decode']:.0f}"
        )
    if given.json:
        about = {
            "settings": {"count": count, "threads": 1, "tries": TRIES, "clock": "thread_time", "load": round(load, 2)},
            "machine": machine(),
        }
        results = about | {"packing": packed, "entropy": coded, "context": context, "positions": positions}
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
