#include "launcher/run/output/python_traceback.h"

#include "support/catch.h"

using ddp::launcher::last_python_error;

TEST_CASE("the error and the user's line of a traceback are found") {
  const auto error = last_python_error(
      "step 3\n"
      "Traceback (most recent call last):\n"
      "  File \"/home/a/train.py\", line 9, in <module>\n"
      "    main()\n"
      "    ^^^^^^\n"
      "  File \"/home/a/train.py\", line 7, in main\n"
      "    dist.all_reduce(t)\n"
      "  File \"/usr/lib/python3/dist-packages/torch/distributed/c10d.py\", line 3252, in all_reduce\n"
      "    work.wait()\n"
      "ValueError: no such column: 'label'\n"
      "a later line\n");
  REQUIRE(error);
  CHECK(error->message == "ValueError: no such column: 'label'");
  CHECK(error->place == "/home/a/train.py:7 in main");
  CHECK(error->text.starts_with("Traceback"));
}

TEST_CASE("PyTorch's line prefix is removed and marks the end of a multi-line message") {
  const auto error = last_python_error(
      "[rank1]: Traceback (most recent call last):\r\n"
      "[rank1]:   File \"fail.py\", line 9, in <module>\r\n"
      "a line of another thread\r\n"
      "[rank1]: torch.distributed.DistBackendError: NCCL error\r\n"
      "[rank1]: ncclRemoteError: remote process exited\r\n"
      "[W1125] destroy_process_group() was not called");
  REQUIRE(error);
  CHECK(error->message == "torch.distributed.DistBackendError: NCCL error\nncclRemoteError: remote process exited");
  CHECK(error->place == "fail.py:9 in <module>");
}

TEST_CASE("the last of several tracebacks counts") {
  const auto error = last_python_error(
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'a'\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"b.py\", line 2, in g\nKeyboardInterrupt\n");
  REQUIRE(error);
  CHECK(error->message == "KeyboardInterrupt");
  CHECK(error->place == "b.py:2 in g");
}

TEST_CASE("a library frame is the place of an error only if there is no user frame") {
  const auto error = last_python_error(
      "Traceback (most recent call last):\n  File \"<frozen runpy>\", line 198, in _run_module_as_main\n"
      "  File \"/usr/lib/python3.11/json/decoder.py\", line 337, in decode\nValueError\n");
  REQUIRE(error);
  CHECK(error->place == "/usr/lib/python3.11/json/decoder.py:337 in decode");
}

TEST_CASE("text that is not a complete traceback is ignored") {
  for (const char* text : {"", "ValueError: bad", "Traceback (most recent call last):",
                           "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n",
                           "Traceback (most recent call last):\nno exception: 'here'\n"}) {
    CAPTURE(text);
    CHECK(!last_python_error(text));
  }
}

TEST_CASE("tracebacks of rich, IPython and DataLoader workers are parsed") {
  struct Case {
    const char* text;
    const char* message;
    const char* place;
  };
  const std::vector<Case> cases = {
      {"╭───────── Traceback (most recent call last) ─────────╮\n"
       "│ /home/a/train.py:10 in <module>                     │\n"
       "│                                                     │\n"
       "│ ❱ 10 main()                                         │\n"
       "│ /home/a/a_very_long_path/with/a/folder/             │\n"
       "│ data.py:7 in load                                   │\n"
       "╰─────────────────────────────────────────────────────╯\n"
       "ValueError: bad sample 17\n",
       "ValueError: bad sample 17", "/home/a/a_very_long_path/with/a/folder/data.py:7 in load"},
      {"╭───── Traceback (most recent call last) ─────╮\n"
       "│ /home/a/a_long_path/failures.py:2 │\n"
       "│ 11 in fail                        │\n"
       "╰───────────────────────────────────╯\n"
       "ValueError: bad shard\n",
       "ValueError: bad shard", "/home/a/a_long_path/failures.py:211 in fail"},
      {"╭───── Traceback (most recent call last) ─────╮\n"
       "│ /home/a/long_path/failures.py:211 │\n"
       "│ in                                │\n"
       "│ fail                              │\n"
       "╰───────────────────────────────────╯\n"
       "ValueError: bad shard\n",
       "ValueError: bad shard", "/home/a/long_path/failures.py:211 in fail"},
      {"---------------------------------------------------------------------------\n"
       "\x1b[31mValueError\x1b[39m                Traceback (most recent call last)\n"
       "File /home/a/train.py:3, in step(x)\n      2 def step(x):\n----> 3     raise ValueError('bad')\n\n"
       "\x1b[31mValueError\x1b[39m: bad\n",
       "ValueError: bad", "/home/a/train.py:3 in step"},
      {"[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 9, in <module>\n"
       "[rank1]: RuntimeError: Caught ValueError in DataLoader worker process 0.\n"
       "[rank1]: Original Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 4, in __getitem__\n"
       "[rank1]: ValueError: bad sample 17\n",
       "ValueError: bad sample 17", "a.py:4 in __getitem__"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto error = last_python_error(one.text);
    REQUIRE(error);
    CHECK(error->message == one.message);
    CHECK(error->place == one.place);
  }
}

TEST_CASE("the place of a crash is in the thread that got the signal, or in the main thread") {
  using ddp::launcher::place_of_crash;
  CHECK(place_of_crash("Fatal Python error: Segmentation fault\n\n"
                       "Thread 0x00007f01 (most recent call first):\n"
                       "  File \"/home/a/load.py\", line 3 in read\n\n"
                       "Current thread 0x00007f02 (most recent call first):\n"
                       "  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n"
                       "  File \"/home/a/train.py\", line 5 in step\n"
                       "  File \"/home/a/train.py\", line 7 in <module>\n\n"
                       "Thread 0x00007f03 (most recent call first):\n"
                       "  File \"/home/a/other.py\", line 1 in f\n\n"
                       "Extension modules: numpy._core (total: 1)\n") == "/home/a/train.py:5 in step");
  // A thread of a C++ library got the signal. Python lists the main thread last.
  CHECK(place_of_crash("Fatal Python error: Aborted\n\n"
                       "Thread 0x00007f01 (most recent call first):\n  <no Python frame>\n\n"
                       "Thread 0x00007f02 (most recent call first):\n"
                       "  File \"/usr/lib/python3/dist-packages/torch/distributed/c10d.py\", line 3252 in all_reduce\n"
                       "  File \"/home/a/train.py\", line 9 in <module>") == "/home/a/train.py:9 in <module>");
  // Before it, a child process has crashed, whose text was not whole.
  CHECK(place_of_crash("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
                       "  File \"/home/a/child.py\", line 1 in f\n"
                       "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
                       "  File \"/home/a/train.py\", line 2 in g\n") == "/home/a/train.py:2 in g");
  for (const char* const text :
       {"", "Fatal Python error: ", "  File \"", "Fatal Python error: Aborted\n\nThread 0x1 ("})
    CHECK(place_of_crash(text).empty());
}
