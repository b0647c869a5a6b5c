"""The commands of `fedcode`; the top of cli.py says how to add one."""
