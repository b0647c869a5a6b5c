"""An app whose clients and server fail when they are told to."""
