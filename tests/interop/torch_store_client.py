"""Tests PyTorch's own store client, of any version, against the server at 127.0.0.1:PORT, with all requests that it
has.

    torch_store_client.py PORT DDPLAUNCH
"""
import datetime
import json
import subprocess
import sys
import threading
import time

import torch.distributed as dist

PORT = int(sys.argv[1])
DDPLAUNCH = sys.argv[2]
SHORT = datetime.timedelta(milliseconds=100)
LONG = datetime.timedelta(seconds=30)


def connect(prefix: str = ""):
    """Returns a new client. With a prefix, no other client uses its keys."""
    store = dist.TCPStore("127.0.0.1", PORT, None, False, timeout=LONG)
    return dist.PrefixStore(prefix, store) if prefix else store


def waiting_clients() -> int:
    report = subprocess.run([DDPLAUNCH, "store", "--inspect", f"127.0.0.1:{PORT}", "--json"], check=True,
                            stdout=subprocess.PIPE).stdout
    return sum(client["waiting_ms"] is not None for client in json.loads(report)["clients"])


def times_out(call) -> None:
    begin = time.monotonic()
    try:
        call()
    except RuntimeError:
        assert time.monotonic() - begin >= SHORT.total_seconds() * 0.9, "it gave up too early"
        return
    raise AssertionError("it did not time out")


def values() -> None:
    store = connect("values")
    for value in ("hello", "", "x" * (1 << 20), "ü\0ü"):
        store.set("k", value)
        assert store.get("k") == value.encode()
    raw = connect()
    raw.set("k", "another")
    assert store.get("k") == "ü\0ü".encode(), "a PrefixStore's key is another"
    assert raw.get("values/k") == store.get("k")
    nested = dist.PrefixStore("b", dist.PrefixStore("a", raw))
    nested.set("k", "deep")
    assert raw.get("a/b/k") == b"deep"


def counters() -> None:
    store = connect("counters")
    assert [store.add("n", 1), store.add("n", 5), store.add("n", -7), store.add("n", 0)] == [1, 6, -1, -1]
    assert store.get("n") == b"-1"
    store.set("text", "41")
    assert store.add("text", 1) == 42
    assert store.add("large", 1 << 40) == 1 << 40


def compare_set() -> None:
    store = connect("swap")
    assert store.compare_set("k", "wrong", "first") == b"wrong"  # the reply is the expected value, although nothing is stored
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "wrong", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.get("k") == b"second"


def keys() -> None:
    store = connect()
    before = store.num_keys()
    store.set("doomed", "x")
    assert store.num_keys() == before + 1
    assert store.delete_key("doomed") and not store.delete_key("doomed")
    assert store.num_keys() == before


def waits() -> None:
    """Another client sets the key. After a time-out, the connection can still be used. PyTorch 1.13 sends nothing
    when it stops waiting, so no server knows before the next request. For that request it keeps the time-out of the
    wait, except in get(), which has the store's own."""
    store, other = connect("waits"), connect("waits")
    threading.Timer(0.1, lambda: (other.set("a", "1"), other.set("b", "2"))).start()
    store.wait(["a", "b"])
    assert store.get("a") == b"1"
    for i in range(5):
        times_out(lambda: store.wait([f"never{i}", "a"], SHORT))
        assert store.get("a") == b"1"
        other.set(f"never{i}", "late")
        assert store.add("after", 1) == i + 1
        assert store.get(f"never{i}") == b"late"
    slow = connect()
    slow.set_timeout(SHORT)
    times_out(lambda: slow.get("waits/absent"))
    slow.set_timeout(LONG)
    assert slow.get("waits/a") == b"1"
    other.set("absent", "late")
    assert slow.get("waits/absent") == b"late"


def late_keys() -> None:
    """The key is set around the moment when the wait times out. The server sends one or two replies, and the stream
    stays usable."""
    store, other = connect("late"), connect("late")
    store.set("there", "v")
    for i in range(50):
        timer = threading.Timer(0.02, lambda key=f"k{i}": other.set(key, "v"))
        timer.start()
        try:
            store.wait([f"k{i}"], datetime.timedelta(milliseconds=19 + i % 4))
        except RuntimeError:
            pass
        assert store.get("there") == b"v" and store.add("n", 1) == i + 1
        timer.join()


def threads() -> None:
    """Eight threads use one client each, and also a client that they share."""
    shared, failures = connect("threads"), []

    def work(number: int) -> None:
        try:
            own = connect("threads")
            for i in range(100):
                own.set(f"{number}/{i}", str(i))
                shared.add("sum", 1)
                assert shared.get(f"{number}/{i}") == str(i).encode()
            own.add("done", 1)
        except Exception as error:  # the main thread reports it
            failures.append(error)
    started = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not failures, failures
    assert shared.add("sum", 0) == 800 and shared.add("done", 0) == 8


def many_at_once() -> None:
    store = connect("many")
    store.multi_set(["a", "b", "c"], ["1", "", "3"])
    assert store.multi_get(["c", "a", "b"]) == [b"3", b"1", b""]
    store.append("a", "23")
    store.append("new", "x")
    assert store.multi_get(["a", "new"]) == [b"123", b"x"]
    assert store.check(["a", "b"]) and not store.check(["a", "absent"])
    names = [f"k{i}" for i in range(5000)]
    store.multi_set(names, names)
    assert store.multi_get(names) == [name.encode() for name in names]


def queues() -> None:
    store, other = connect("queues"), connect("queues")
    assert store.queue_len("q") == 0
    for value in ("1", "", "3"):
        store.queue_push("q", value)
    assert store.queue_len("q") == 3
    assert [other.queue_pop("q") for _ in range(3)] == [b"1", b"", b"3"]
    try:
        store.queue_pop("q", False)
        raise AssertionError("something came out of an empty queue")
    except RuntimeError:
        pass
    threading.Timer(0.1, lambda: other.queue_push("q", "late")).start()
    assert store.queue_pop("q") == b"late"
    # Several clients wait, and each value is sent to one of them. All wait before the first value is pushed: PyTorch's
    # queue_pop waits for the queue and then takes from it, in two requests, and raises QueueEmptyError if another client,
    # which did not wait, took the value in between.
    got = []
    waiting = [threading.Thread(target=lambda: got.append(connect("queues").queue_pop("shared"))) for _ in range(4)]
    for thread in waiting:
        thread.start()
    while waiting_clients() < 4:
        pass
    for i in range(4):
        other.queue_push("shared", str(i))
    for thread in waiting:
        thread.join()
    assert sorted(got) == [b"0", b"1", b"2", b"3"], got


def list_keys() -> None:
    store = connect()
    store.set("listed", "x")
    assert "listed" in store.list_keys()
    store.delete_key("listed")
    assert "listed" not in store.list_keys()


def barrier() -> None:
    passed = []

    def rank(number: int) -> None:
        connect("barrier").barrier("b", 4)
        passed.append(number)
    ranks = [threading.Thread(target=rank, args=(number,)) for number in range(4)]
    for thread in ranks[:3]:
        thread.start()
    store = connect("barrier")
    while store.add("b/num_members", 0) < 3:  # PyTorch counts the members in this key
        pass
    assert not passed
    ranks[3].start()
    for thread in ranks:
        thread.join()
    assert sorted(passed) == [0, 1, 2, 3]
    times_out(lambda: store.barrier("alone", 2, SHORT))
    store.set("after", "x")
    assert store.get("after") == b"x"


def clones() -> None:
    store = connect()
    clone = store.clone()
    clone.set("clone", "x")
    assert store.get("clone") == b"x"
    prefixed = dist.PrefixStore("p", store).clone()
    prefixed.set("k", "y")
    assert store.get("p/k") == b"y"


# A test that needs a method runs only if this version's client has it.
TESTS = [(values, ""), (counters, ""), (compare_set, ""), (keys, ""), (waits, ""), (late_keys, "multi_get"), (threads, ""),
         (many_at_once, "multi_get"), (queues, "queue_push"), (list_keys, "list_keys"), (barrier, "barrier"),
         (clones, "clone")]

for test, method in TESTS:
    if method and not hasattr(dist.TCPStore, method):
        print(f"{test.__name__}: this PyTorch has no {method}")
        continue
    test()
    print(f"{test.__name__}: ok", flush=True)
