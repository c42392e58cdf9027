#include "launcher/see/explain/log_reader.h"

#include <string>

#include "support/catch.h"

namespace ddp::launcher {
namespace {

LogFindings read(const std::string& text, std::size_t part = 7) {
  LogReader reader("x.log", std::nullopt);
  for (std::size_t at = 0; at < text.size(); at += part) reader.add(std::string_view(text).substr(at, part));
  return reader.finish();
}

const std::string kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 83, in step\n"
    "    raise ValueError(\"CUDA out of memory. \")\n";

TEST_CASE("a traceback is parsed as a failure with its file and line") {
  const auto found = read("begin\n" + kTraceback + "ValueError: no such column\nend");
  REQUIRE(found.failures.size() == 1);
  CHECK(found.failures[0].message == "ValueError: no such column");
  CHECK(found.failures[0].place == "train.py:83 in step");
  CHECK(found.failures[0].at == LogPlace{"x.log", 2});
  CHECK(found.failures[0].cause == nullptr);
  CHECK(found.failures[0].standing != Standing::went_on);
  CHECK(found.lines == 6);
}

TEST_CASE("an indented message belongs to the exception, and a source line does not") {
  const std::string words = "        An attempt has been made to start a new process before the\n";
  const auto found =
      read("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    f()\nRuntimeError: \n" + words);
  REQUIRE(found.failures.size() == 1);
  REQUIRE(found.failures[0].cause != nullptr);
  CHECK(found.failures[0].cause->id == "main-not-protected");
  const auto quoted =
      read("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n" + words + "ValueError: x\n");
  REQUIRE(quoted.failures.size() == 1);
  CHECK(quoted.failures[0].cause == nullptr);
}

TEST_CASE("an exception group is reported as its first exception") {
  const auto found = read(
      "  + Exception Group Traceback (most recent call last):\n  |   File \"t.py\", line 8, in <module>\n  |     f()\n"
      "  | ExceptionGroup: two errors (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
      "    | Traceback (most recent call last):\n    |   File \"t.py\", line 3, in f\n    | ValueError: bad\n"
      "    +---------------- 2 ----------------\n    | KeyError: 7\n    +------------------------------------\n");
  REQUIRE(found.failures.size() == 1);
  CHECK(found.failures[0].message == "ValueError: bad");
  CHECK(found.failures[0].standing == Standing::uncaught);
}

TEST_CASE("a crashed program has not continued if its launcher says so, whatever is printed later") {
  const std::string later = "step 1\nstep 2\nstep 3\n";
  const std::string end = "srun: error: node1: task 0: Segmentation fault\n";
  const auto standing = [](const std::string& log) { return read(log).failures.at(0).standing; };
  const std::string crash = "Fatal Python error: Segmentation fault\n\n  File \"t.py\", line 3 in f\n";
  CHECK(standing(crash + later) == Standing::printed);  // it may be the crash of another process
  CHECK(standing(crash + later + end) == Standing::uncaught);
  const std::string abort = "terminate called after throwing an instance of 'E'\n  what():  bad\n";
  CHECK(standing(abort + later) == Standing::printed);
  CHECK(standing(abort + later + end) == Standing::uncaught);
  CHECK(read(abort + "torch/elastic: 3 will restart worker group; 1 attempts left\n").failures.at(0).standing ==
        Standing::restarted);
}

TEST_CASE("the first known exception of a chain is the cause") {
  const std::string begin = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n";
  const auto found =
      read(begin +
           "OSError: [Errno 28] No space left on device\n\nDuring handling of the above exception, "
           "another exception occurred:\n\n" +
           begin + "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598\n");
  REQUIRE(found.failures.size() == 1);
  CHECK(found.failures[0].cause->id == "disk-full");
}

TEST_CASE("an NCCL message after an exception is not part of it") {
  const std::string warning = "node1:7:9 [1] NCCL WARN Cuda failure 2 'out of memory'\n";
  const auto found = read(kTraceback + "AssertionError: x\n" + warning);
  REQUIRE(found.failures.size() == 2);
  CHECK(found.failures[0].cause == nullptr);
  CHECK(found.failures[1].cause->id == "nccl-gpu-memory");
}

TEST_CASE("an untagged traceback is uncaught if it starts in the main module, and printed if in a function") {
  const std::string end = "ValueError: x\n";
  CHECK(read(kTraceback + end).failures.at(0).standing == Standing::printed);
  const std::string main = "  File \"t.py\", line 9, in <module>\n    main()\n";
  CHECK(read("Traceback (most recent call last):\n" + main + end).failures.at(0).standing == Standing::uncaught);
  const std::string tagged = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 9, in f\n";
  CHECK(read(tagged + "[rank1]: " + end).failures.at(0).standing == Standing::uncaught);
  const std::string cell = "Traceback (most recent call last):\n  Cell In[3], line 1\n    f()\n";
  CHECK(read(cell + end).failures.at(0).standing == Standing::uncaught);
  CHECK(read("Exception in thread T:\nTraceback (most recent call last):\n" + main + end).failures.at(0).standing ==
        Standing::in_thread);
}

TEST_CASE("without a launcher's message only the last failure in the log certainly ended the program") {
  const auto standing = [](const std::string& log) { return read(log).failures.at(0).standing; };
  const std::string error = "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\nValueError: x\n";
  const std::string logged = "2026-11-04 12:00:03,123 INFO going on\n";
  CHECK(standing(error + "of the message\n\nMore of it, in 7 words.\n") == Standing::uncaught);
  CHECK(standing(error + logged) == Standing::printed);
  CHECK(standing(error + logged + "srun: error: node1: task 0: Exited with exit code 1\n") == Standing::uncaught);
  CHECK(standing("2026-11-04 12:00:03,123 ERROR it does not fit\n" + error) == Standing::printed);
  CHECK(standing("step 1\n" + error + "\nstep 2\n") == Standing::printed);
  const std::string words = "CUDA out of memory. Tried to allocate 2.00 GiB\n";
  CHECK(standing(words) == Standing::said);
  CHECK(standing(words + "saved\n") == Standing::printed);
  // Its own excepthook of PyTorch is called only if nothing has caught the exception.
  CHECK(standing("[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x\n" + logged) ==
        Standing::uncaught);
}

TEST_CASE("a worker's output is not mistaken for a message of its launcher") {
  CHECK_FALSE(read("[default0]:srun: error: node1: task 3: Killed\n").has_failed);
  CHECK_FALSE(read("step 7, sample: srun: error: node1: task 3: Killed\n").has_failed);
  CHECK(read("srun: error: node1: task 3: Killed\n").has_failed);
  CHECK(read("2026-11-04T12:00:03Z srun: error: node1: task 3: Killed\n").has_failed);
}

TEST_CASE("torchrun's root cause names the rank that failed first") {
  const auto found = read(
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\nt.py "
      "FAILED\n-----\nFailures:\n[1]:\n"
      "  time      : 2026-11-04_13:03:29\n  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 14689)\n-----\n"
      "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-04_13:02:58\n"
      "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 14690)\n=====\n");
  REQUIRE(found.ends.size() == 1);
  CHECK(found.ends[0].rank == 1);
  CHECK(found.ends[0].text == "exit code 1");
  CHECK(found.ends[0].quoted.empty());
  for (const Failure& failure : found.failures) CHECK(failure.proof() != Proof::failure);
}

TEST_CASE("text after an empty line belongs to an exception only if it is indented") {
  const std::string words = "test2: FAILED (ModuleNotFoundError: No module named 'x')\n";
  const std::string error = kTraceback + "AssertionError\n";
  CHECK(read(error + words).failures.at(0).cause->id == "missing-module");
  CHECK(read(error + "\n  " + words).failures.at(0).cause->id == "missing-module");
  CHECK(read(error + "\n" + words).failures.at(0).cause == nullptr);
  CHECK(read(error + "\nmore\n  " + words).failures.at(0).cause == nullptr);
}

TEST_CASE("a counter after a traceback shows that the program has continued") {
  const std::string main = "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\nValueError: x\n";
  CHECK(read(main).failures.at(0).standing == Standing::uncaught);
  CHECK(read(main + "[INFO] step 1\n[INFO] step 2\n").failures.at(0).standing == Standing::went_on);
  CHECK(read(main + "[1]:\n[2]:\n").failures.at(0).standing == Standing::uncaught);  // of torchrun's table
}

TEST_CASE("the last line that a program prints before the launcher's message is kept") {
  const std::string failed =
      "E1128 04:23:01.311000 1 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
      "(exitcode: 2) local_rank: 0 (pid: 9) of binary: python\n";
  const std::string warned =
      "W1128 04:23:01.3 1 torch/distributed/elastic/multiprocessing/api.py:10] Sending process 7 "
      "closing signal SIGTERM\n";
  for (const std::string before : {"", "step 1\n", "usage: t.py\r\n"}) {
    std::string log;
    for (int i = 0; i < 2000; ++i) log += before;  // more than what is read line by line
    const auto found = read(log + "t.py: error: bad\n\n" + warned + failed);
    REQUIRE(found.ends.size() == 1);
    CHECK(found.ends[0].quoted == "t.py: error: bad");
  }
  const std::string json =
      R"({"level": "ERROR", "exc": "Traceback (most recent call last):\n  File \"t.py\", line 8, in f\nIndexError: \"x\" is bad", "rank": 1})";
  CHECK(read(json + "\n" + failed).ends.at(0).quoted == "IndexError: \"x\" is bad");
  CHECK(read(json + "\n" + failed).ends.at(0).is_error_quoted);
  CHECK(read(failed).ends.at(0).quoted.empty());
  CHECK(read("[default3]: bad\n" + failed).ends.at(0).quoted.empty());  // of another rank
}

TEST_CASE("interleaved tracebacks are separated by their tags") {
  std::string log;
  const std::string lines[] = {"Traceback (most recent call last):", "  File \"t.py\", line ", "ValueError: of "};
  for (const std::string& line : lines) {
    for (const char* rank : {"0", "1"}) {
      const std::string end = line.ends_with(":") ? "" : rank;
      log += "\x1b[31m[rank" + std::string(rank) + "]:\x1b[0m " + line + end + "\r\n";
    }
  }
  const auto found = read(log);
  REQUIRE(found.failures.size() == 2);
  CHECK(found.failures[0].rank == 0);
  CHECK(found.failures[0].message == "ValueError: of 0");
  CHECK(found.failures[0].place == "t.py:0");
  CHECK(found.failures[1].rank == 1);
  CHECK(found.failures[1].message == "ValueError: of 1");
}

TEST_CASE("colours, links and cursor movements are removed from a line") {
  for (const std::size_t part : {1, 2, 3, 1000}) {
    const auto found = read(
        "\x1b]0;title\aTrace\x1b[31mback (most recent\x1b[K call last):\n\x1b]8;;x\x1b\\ValueError: x\x1b[0m\n", part);
    REQUIRE(found.failures.size() == 1);
    CHECK(found.failures[0].message == "ValueError: x");
  }
  CHECK(read("\x1b]never ends\n" + kTraceback + "ValueError: x\x1b[").failures.size() == 1);
}

TEST_CASE("a program that continues counting has caught its failure") {
  const std::string failed = kTraceback + "ValueError: x\n";
  CHECK(read(failed + "step 1 loss 3.0\nstep 2 loss 2.9\n").failures.at(0).standing == Standing::went_on);
  CHECK(read(failed + "saved 1 file\n").failures.at(0).standing != Standing::went_on);
  CHECK(read("step 1\n" + failed + "step 2\n").failures.at(0).standing != Standing::went_on);
  const auto found = read("3: " + failed + "2: step 1\n2: step 2\n");
  CHECK(found.failures.at(0).standing != Standing::went_on);
  CHECK(found.ranks == std::set<int>{2, 3});
}

TEST_CASE("chained exceptions are one failure") {
  const std::string log = kTraceback +
                          "ValueError: x\n\nDuring handling of the above exception, another exception occurred:\n\n" +
                          kTraceback + "KeyError: y\n";
  const auto found = read(log);
  REQUIRE(found.failures.size() == 1);
  CHECK(found.failures[0].message == "KeyError: y");
}

TEST_CASE("a C++ exception and a Python fatal error are failures") {
  const auto cxx = read("terminate called after throwing an instance of 'std::runtime_error'\n  what():  no file\n");
  REQUIRE(cxx.failures.size() == 1);
  CHECK(cxx.failures[0].message == "std::runtime_error: no file");
  const auto fatal = read(
      "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"a.py\", line 3 "
      "in f\n\n");
  REQUIRE(fatal.failures.size() == 1);
  CHECK(fatal.failures[0].message == "Fatal Python error: Segmentation fault");
  CHECK(fatal.failures[0].place == "a.py:3 in f");
}

TEST_CASE("a truncated traceback is a failure") {
  CHECK(read("Traceback (most recent call last):\n  File \"a.py\", line 3, in f").failures.size() == 1);
}

TEST_CASE("garbage and very long lines are accepted") {
  std::string garbage;
  for (int i = 0; i < 300'000; ++i) garbage += static_cast<char>(i % 1000 * 7919 % 256);
  CHECK(read(garbage, 1000).failures.empty());
  CHECK(read(std::string(1'000'000, 'x') + "\n" + kTraceback + "ValueError: x\n", 4096).failures.size() == 1);
}

TEST_CASE("a program whose counter advances has continued") {
  LogProgress progress;
  progress.begin(true);
  CHECK(progress.add("step 9 loss 1.5", false) == Progress::none);
  CHECK(progress.add("saved", false) == Progress::none);
  CHECK(progress.add("step 10 loss 1.25", false) == Progress::certain);
}

TEST_CASE("a counter that was printed before a failure and advances after it is no certain sign of progress") {
  LogProgress progress;
  progress.add("step 9 loss 1.5", false);
  progress.begin(true);
  CHECK(progress.add("see page 7", false) == Progress::none);
  CHECK(progress.add("step 10 loss 1.25", false) == Progress::perhaps);
}

TEST_CASE("a line outside of the error message may show progress") {
  LogProgress progress;
  progress.begin(true);
  CHECK(progress.add("INFO the batch is halved", true) == Progress::perhaps);
}

TEST_CASE("equal lines of several ranks do not show progress") {
  LogProgress progress;
  progress.begin(true);
  for (int rank = 0; rank < 8; ++rank) CHECK(progress.add("leaked 3 objects", false) == Progress::none);
}

TEST_CASE("messages about the end of the program do not show progress") {
  LogProgress progress;
  progress.begin(true);
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    for (const char* words : {"error ", "pid ", "Warning: ", "[W", "  File ", "received signal ", "frame #"}) {
      CHECK(progress.add(words + number, true) == Progress::none);
    }
  }
}

TEST_CASE("a horizontal rule does not show progress") {
  LogProgress progress;
  progress.begin(false);
  for (int i = 0; i < 100; ++i) CHECK(progress.add("=====", true) == Progress::none);
}

TEST_CASE("a value in a progress bar is not a failure") {
  LogProgress progress;
  progress.begin(false);
  CHECK(progress.add("train: 33% 20/60, error=0, loss=1.5", false) == Progress::none);
  CHECK(progress.add("train: 42% 25/60, error=0, loss=1.4", false) == Progress::certain);
}

TEST_CASE("many lines show progress, and a new failure resets the count") {
  LogProgress progress;
  const auto lines_until_progress = [&](bool is_exception) {
    progress.begin(is_exception);
    int lines = 1;
    const auto line = [&] { return "line " + std::string(static_cast<std::size_t>(lines), 'x'); };
    while (progress.add(line(), false) != Progress::certain) ++lines;
    return lines;
  };
  const int lines = lines_until_progress(true);
  CHECK(lines_until_progress(true) == lines);
  CHECK(lines_until_progress(false) < lines / 4);
}

}  // namespace
}  // namespace ddp::launcher
