#include "launcher/see/explain/log_line.h"

#include <string>

#include "support/catch.h"

namespace ddp::launcher {
namespace {

TEST_CASE("the rank is read from the tags of launchers") {
  const auto rank = [](std::string_view line) { return read_line(line).rank; };
  CHECK(rank("[rank3]: Traceback (most recent call last):") == 3);
  CHECK(rank("3: Traceback") == 3);
  CHECK(rank(" 12: Traceback") == 12);
  CHECK(rank("[1,3]<stderr>: Traceback") == 3);
  CHECK(rank("Sat Nov 28 03:37:54 2026[1,1]<stdout>:Traceback") == 1);
  CHECK(rank("[prterun-node-1234@1,3]<stderr>: Traceback") == 3);
  CHECK(rank("[3] Traceback") == 3);
  CHECK(rank("[0-3] Traceback") == 0);
  CHECK(rank("[default3]:[rank11]: Traceback") == 11);
  CHECK(rank("fa88a9df [rank=4] || Traceback") == 4);
  CHECK(rank(" 50%|#####     | 5/10 [00:01<00:01][rank7]:[E1104 12:00:03 a.cpp:1] x") == 7);
  CHECK_FALSE(rank("Traceback"));
  CHECK_FALSE(rank("[default3]:Traceback"));
  CHECK_FALSE(rank("[pod/train-worker-3/pytorch] Traceback"));
  CHECK_FALSE(rank("[rank]: x"));
  CHECK_FALSE(rank("[,]<stdout>:x"));
  CHECK_FALSE(rank("[]<stdout>:x"));
  CHECK(read_line("[default3]:Traceback").local_rank == 3);
  CHECK(read_line("[trainer0]: x").local_rank == 0);
  CHECK(read_line("train-worker-0 trainer [default3]:x").local_rank == 3);
  CHECK_FALSE(read_line("saved part 1 of [default3]:x").local_rank);
  CHECK(read_line("[node187:2]:x").local_rank == 2);
  CHECK(read_line("-- Process 2 terminated with the following error:").local_rank == 2);
}

TEST_CASE("tags, times and prefixes are removed from a log line") {
  const auto text = [](std::string_view line) { return std::string(read_line(line).text); };
  for (const char* line :
       {"[default3]:[rank3]: Traceback", "[rank3]: Traceback", "2026-11-04 12:00:03,123 Traceback", "3: Traceback",
        "[2026-11-04 12:00:03,123] Traceback", "2026-11-04T12:00:03.123456789Z Traceback",
        "2026-11-04T12:00:03.1+02:00 [3] Traceback", "[12:00:03] [3] Traceback", "[pod/worker-3/torch] Traceback",
        "worker-3  | Traceback", "[1,3]<stdout>:Traceback",
        "[rank3]:[E1104 12:00:03.123456789 ProcessGroupNCCL.cpp:629] Traceback",
        "E1104 12:00:03.123456 4711 torch/distributed/api.py:826] Traceback", "[W socket.cpp:464] Traceback",
        "Traceback"}) {
    CHECK(text(line) == "Traceback");
  }
  CHECK(text("node1:4711:4720 [3] NCCL WARN Duplicate GPU") == "NCCL WARN Duplicate GPU");
  CHECK(text("step 3: loss 2") == "step 3: loss 2");
  CHECK(text("[INFO] x") == "[INFO] x");
  CHECK(text("  File \"a.py\", line 3, in f") == "  File \"a.py\", line 3, in f");
  CHECK(text("").empty());
  CHECK(read_line("[default3]:  File \"a.py\"").text == "  File \"a.py\"");
  CHECK(read_line("[rank3]:[E1104 12:00:03 x.cpp:1] [Rank 3] a").body == "[rank3]:[E1104 12:00:03 x.cpp:1] [Rank 3] a");
}

TEST_CASE("the severity of a logged line is recognised") {
  CHECK(logs_trouble("ERROR train: the batch does not fit"));
  CHECK(logs_trouble("WARNING:root:slow"));
  CHECK_FALSE(logs_trouble("INFO train: step 3"));
}

TEST_CASE("a line that merely mentions an error is not a failure") {
  CHECK(only_tells("2026-11-04 12:00:03 - INFO - out of memory, the batch is halved"));
  CHECK(only_tells("UserWarning: libcuda.so.1: cannot open shared object file"));
  CHECK(only_tells("caught: CUDA out of memory. - retry"));
  CHECK(only_tells("ERROR save failed: [Errno 28] No space left on device, trying /scratch"));
  CHECK(only_tells("ERROR:io:Retrying save in 0.05 seconds as it raised OSError: [Errno 28] No space left on device."));
  CHECK_FALSE(only_tells("ERROR: Unexpected bus error encountered in worker"));
  CHECK_FALSE(only_tells("RuntimeError: CUDA out of memory."));
  CHECK_FALSE(only_tells("NCCL WARN Call to connect failed, retrying"));
  CHECK_FALSE(only_tells("slurmstepd: error: Detected 1 oom-kill event(s)"));
}

TEST_CASE("times can be compared only if they use the same clock") {
  const auto at = [](std::string_view line) { return read_line(line).time.value(); };
  CHECK(at("2026-11-04 12:00:03,5 a").microseconds + 1'500'000 == at("2026-11-04 12:00:05.0 a").microseconds);
  CHECK(at("2026-11-04T12:00:03Z a") == at("2026-11-04T14:00:03+02:00 a"));
  CHECK(at("[E1104 12:00:03.000000 a.cpp:1] a") == at("2026-11-04 12:00:03 a"));
  CHECK(at("12:00:03 a").clock == LogTime::Clock::daily);
  CHECK(time_text(at("2026-11-04 12:00:03,5 a")) == "11-04 12:00:03");
  CHECK(time_text(at("2026-12-31 23:59:59 a")) == "12-31 23:59:59");
  CHECK(time_text(at("12:00:03 a")) == "12:00:03");
  CHECK_FALSE(read_line("2026-11-04 a").time);
  CHECK_FALSE(read_line("99:99:99 a").time);
}

}  // namespace
}  // namespace ddp::launcher
