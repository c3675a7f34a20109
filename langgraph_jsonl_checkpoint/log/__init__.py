"""Records on disk. Knows bytes and records; nothing of LangGraph or LangChain.

A record (`records`) is a line; the lines of a commit (`journal`) are a frame (`frames`); `logfile` and `local` bring
frames to the disk. `lines` finds a record again, also in a log that is packed (`packing`), and `survey` reads what is
left of a damaged one. The lock files (`lockfile`) of `writers` and `leases` tell who lives.
"""
