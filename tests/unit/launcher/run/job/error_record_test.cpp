#include "launcher/run/job/error_record.h"

#include <csignal>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

TEST_CASE("text that is not an error record is ignored") {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"message": 3})", R"({"message": {}})",
                           R"({"message": {"message": ["x"]}})", "\xff\xfe"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_error_record(text).has_value());
  }
  CHECK_FALSE(read_error_record("/no/such/file").has_value());
}

TEST_CASE("both error file formats of torchelastic are parsed") {
  CHECK(parse_error_record(R"({"message": "plain", "timestamp": 1})") == ErrorRecord{"plain", false});
  CHECK(parse_error_record(R"({"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "…"}}})") ==
        ErrorRecord{"ValueError: bad", false});
}

TEST_CASE("an error record of a lost peer marks a secondary failure") {
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "peer_lost"}}})") ==
        ErrorRecord{"m", true});
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "timeout"}}})") ==
        ErrorRecord{.message = "m", .is_timeout = true});
}

TEST_CASE("PyTorch's message about a lost connection between ranks marks a secondary failure") {
  const auto is_secondary = [](const std::string& message) {
    const auto wrapped = parse_error_record(R"({"message": {"message": ")" + message + R"(", "extraInfo": {}}})");
    const auto plain = parse_error_record(R"({"message": ")" + message + R"("})");
    REQUIRE(wrapped);
    CHECK(wrapped->is_secondary == plain->is_secondary);
    return wrapped->is_secondary;
  };
  CHECK(is_secondary("RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:5842"));
  CHECK(
      is_secondary("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [::1]:9: Connection "
                   "reset by peer"));
  CHECK(is_secondary("[./gloo/transport/tcp/pair.cc:223] writev [127.0.0.1]:9: Broken pipe"));
  CHECK(
      is_secondary("DistBackendError: NCCL error: remote process exited or there was a network error, NCCL version "
                   "2.18.1 ncclRemoteError: A call failed possibly due to a network error"));
  CHECK_FALSE(is_secondary("ConnectionResetError: [Errno 104] Connection reset by peer"));
  CHECK_FALSE(is_secondary("RuntimeError: [./gloo/transport/tcp/pair.cc:9] Timed out waiting 1000ms for send"));
  CHECK_FALSE(is_secondary("ValueError: bad shard"));
}

TEST_CASE("messages of libraries about lost ranks and timeouts are recognised") {
  struct Case {
    const char* text;
    bool is_secondary;
    bool is_timeout;
  };
  const std::vector<Case> cases = {
      {"RuntimeError: [/w/gloo/transport/tcp/pair.cc:8] Connect error: Connection refused", true, false},
      {"RuntimeError: [/w/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms for recv", false, true},
      {"DistBackendError: NCCL communicator was aborted on rank 1.", true, false},
      {"DistBackendError: ncclSystemError: System call failed. Call to recv failed: Connection reset by peer", true,
       false},
      {"DistBackendError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)", false, true},
      {"torch.distributed.DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed.", true, false},
      {"torch.distributed.DistStoreError: wait timeout after 1000ms, keys: /x", false, true},
      {"RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms", false, true},
      {"RuntimeError: eof (this error originated at tensorpipe/transport/uv/connection_impl.cc:132)", true, false},
      {"mpi4py.MPI.Exception: MPI_ERR_PROC_FAILED: Process Failure", true, false},
      {"ray.exceptions.ActorDiedError: The actor died unexpectedly", true, false},
      {"ConnectionRefusedError: [Errno 111] Connection refused", false, false},
      {"TimeoutError: the data loader timed out", false, false},
      {"BrokenPipeError: [Errno 32] Broken pipe", false, false},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto record = parse_error_record(R"({"message": ")" + std::string(one.text) + R"("})");
    REQUIRE(record);
    CHECK(record->is_secondary == one.is_secondary);
    CHECK(record->is_timeout == one.is_timeout);
  }
}

TEST_CASE("the first exception of a chain decides the meaning of the last one") {
  const std::string lost =
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in step\n"
      "RuntimeError: [/w/gloo/transport/tcp/pair.cc:5] Connection closed by peer [::1]:9\n";
  const std::string own = "Traceback (most recent call last):\n  File \"a.py\", line 7, in load\nValueError: bad\n";
  const std::string during = "\nDuring handling of the above exception, another exception occurred:\n\n";
  const std::string from = "\nThe above exception was the direct cause of the following exception:\n\n";
  const std::string group =
      "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in <module>\n"
      "  | ExceptionGroup: g (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
      "    | Traceback (most recent call last):\n    |   File \"a.py\", line 3, in step\n"
      "    | RuntimeError: [/w/gloo/transport/tcp/pair.cc:5] Broken pipe\n"
      "    +---------------- 2 ----------------\n"
      "    | Traceback (most recent call last):\n    |   File \"a.py\", line 5, in read\n";
  std::string alike = group;
  const std::string in_group = "RuntimeError: [/w/gloo/transport/tcp/pair.cc:5] Broken pipe";
  alike.replace(alike.find(in_group), in_group.size(), "OSError: shard 3 is empty");
  const std::string end = "    +------------------------------------\n";
  const std::string gloo = "    | RuntimeError: [/w/gloo/transport/tcp/pair.cc:5] Connection reset by peer\n";
  struct Case {
    std::string text;
    bool is_secondary;
    bool had_own_error;
    const char* message;
    const char* place;
  };
  const std::vector<Case> cases = {
      {own, false, false, "ValueError: bad", "a.py:7 in load"},
      {lost + from + own, true, false, "ValueError: bad", "a.py:7 in load"},
      {lost + during + own, true, false, "ValueError: bad", "a.py:7 in load"},
      {own + during + lost, true, true, "ValueError: bad", "a.py:7 in load"},
      {own + from + own, false, false, "ValueError: bad", "a.py:7 in load"},
      {lost + "the step is repeated\n" + own, false, false, "ValueError: bad", "a.py:7 in load"},
      {group + "    | KeyError: 'a'\n" + end, false, false, "KeyError: 'a'", "a.py:5 in read"},
      {alike + "    | KeyError: 'a'\n" + end, false, false, "OSError: shard 3 is empty", "a.py:3 in step"},
      {group + gloo + end, true, false, nullptr, "a.py:5 in read"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto printed = last_python_error(one.text);
    REQUIRE(printed);
    const ErrorRecord record = error_record_of(*printed);
    CHECK(record.is_secondary == one.is_secondary);
    CHECK(record.had_own_error == one.had_own_error);
    if (one.message != nullptr) CHECK(record.message == one.message);
    CHECK(record.place == one.place);
  }
}

TEST_CASE("an error record needs a printed error and an exit code, or SIGABRT with a lost peer or a mismatch") {
  using ddp::base::ExitStatus;
  const PythonError own{"ValueError: bad", "", "ValueError: bad", {}};
  const auto lost = last_cxx_error(
      "terminate called after throwing an instance of 'c10::DistBackendError'\n"
      "  what():  NCCL error: remote process exited or there was a network error\nncclRemoteError: a call failed\n");
  REQUIRE(lost);
  CHECK(error_record_of(own, ExitStatus::exited(3)));
  CHECK_FALSE(error_record_of(own, ExitStatus::killed(SIGABRT)));
  CHECK_FALSE(error_record_of(std::nullopt, ExitStatus::exited(3)));
  CHECK(error_record_of(lost, ExitStatus::killed(SIGABRT))->is_secondary);
  CHECK_FALSE(error_record_of(lost, ExitStatus::killed(SIGSEGV)));
  const auto differs = last_cxx_error(
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
      "  what():  [enforce fail at gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. "
      "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?\n");
  CHECK(error_record_of(differs, ExitStatus::killed(SIGABRT))->is_mismatch);
}

TEST_CASE("an error record may name the rank that was lost or differs") {
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "mismatch", "ddp_peer": 3}}})") ==
        ErrorRecord{"m", false, true, 3});
  CHECK(
      parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "peer_lost", "ddp_peer": "3"}}})") ==
      ErrorRecord{"m", true, false, std::nullopt});
}

TEST_CASE("an endless error file is read only up to its limit") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/error.json";
  std::ofstream(path) << R"({"message": ")" << std::string(2 << 20, 'x') << R"("})";
  CHECK_FALSE(read_error_record(path).has_value());
}
