"""Jobs that fork with savers open: what parent and child do then."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from cases.graphs import config

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import logfile
from races.jobs import name_of, store, store_writes, values_of

if TYPE_CHECKING:
    from warm import Report


def pool(report: Report, *, root: str, name: str, ids: list[str], count: int) -> None:
    """Threads append to several savers while the process forks workers that append to the same savers."""
    savers = [JsonlSaver(root, fsync="never") for _ in range(2)]
    stop = threading.Event()

    def put_all(writer: str, number: int, places: range) -> None:
        for place in places:
            thread = ids[place % len(ids)]
            store(savers[number % 2], thread, writer, place)
            report("put", writer=writer, thread=thread, place=place)
            store_writes(savers[number % 2], thread, writer, place)
            report("writes", writer=writer, thread=thread, place=place)

    def work(number: int) -> None:
        place = 0
        while not stop.is_set():
            put_all(f"{name}.{number}", number, range(place, place := place + 1))

    def child(number: int) -> None:
        put_all(f"{name}.child{number}", number, range(20))
        with JsonlSaver(root) as own:
            own.get_tuple(config(ids[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    fork = multiprocessing.get_context("fork")
    for _ in range(count):
        running = [fork.Process(target=child, args=(2 * _ + number,)) for number in range(2)]
        for each in running:
            each.start()
        for each in running:
            each.join(30)
            assert each.exitcode == 0
    stop.set()
    for thread in threads:
        thread.join()
    for saver in savers:
        saver.close()


def leave_in_good_order(report: Report, *, root: str, name: str, drop: bool) -> None:
    """Fork in the middle of a run; the child ends as programs end, the parent is killed."""
    saver = JsonlSaver(root)
    _begin_run(saver, name)
    if (child := os.fork()) == 0:
        if drop:
            del saver
            gc.collect()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert saver.get_tuple(config()) is not None
    report("left")
    time.sleep(60)


def _begin_run(saver: Any, name: str) -> None:
    """Store a checkpoint that leads to a node."""
    from langgraph.graph import START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        who: str

    builder = StateGraph(State).add_node("wait", lambda _: None).add_edge(START, "wait")
    graph = builder.compile(checkpointer=saver, interrupt_before=["wait"])
    graph.invoke({"who": name}, config())


def die_in_an_append(report: Report, *, root: str, name: str, child_reads: bool) -> None:
    """Fork while a thread holds the log's lock, and die in that; the child lives on, and appends."""
    saver = JsonlSaver(root, fsync="never")
    store(saver, "t", name, 0)
    store(saver, "t", name, 1)
    saver.pack("t")
    rows = saver.list(config())
    if child_reads:
        assert next(rows).checkpoint["id"] == name_of(name, 1)
    holds = threading.Event()
    write = logfile.LogFile.write

    def hang(*_: Any) -> None:
        holds.set()
        time.sleep(60)

    logfile.LogFile.write = hang
    threading.Thread(target=store, args=(saver, "t", name, 2), daemon=True).start()
    assert holds.wait(10)
    parent = os.getpid()
    if os.fork():
        report("forked")
        time.sleep(60)
    logfile.LogFile.write = write
    while os.getppid() == parent:
        time.sleep(0.001)
    signal.alarm(20)
    store(saver, "t", f"{name}.child", 3)
    if child_reads:
        assert [row.checkpoint["channel_values"] for row in rows] == [values_of(name, 0, 40)]
    report("child done", pid=os.getpid())
    time.sleep(60)


def generations(report: Report, *, root: str, name: str, depth: int) -> None:
    """Each process puts, forks, and puts again; the last first."""
    saver = JsonlSaver(root)
    for level in range(depth):
        store(saver, "t", f"{name}.{level}", 0)
        report("put", writer=f"{name}.{level}", thread="t", place=0)
        if level + 1 < depth and (child := os.fork()):
            assert os.waitpid(child, 0)[1] == 0
        elif level + 1 < depth:
            continue
        store(saver, "t", f"{name}.{level}", 1)
        report("put", writer=f"{name}.{level}", thread="t", place=1)
        saver.close()
        if level:
            os._exit(0)
        return
