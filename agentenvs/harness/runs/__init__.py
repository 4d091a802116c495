"""The index of runs: what many run folders hold, in one database that can be asked.

The folders stay the truth. The index is made from them, can be thrown away and made again, and says of every run where
its folder lies. Filling it again changes nothing.
"""
