#include "launcher/run/watchdog/evidence/ras_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view kStatus = R"(NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32  RUNNING  MISMATCH

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3458465 on node 172.16.64.213 managing GPU 5

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
)";

const Lines kEssence = {"DEAD",
                        "  1 job process is considered dead (unreachable via the RAS network)",
                        "  Process 3458465 on node 172.16.64.213 managing GPU 5",
                        "#0-0 (cf264af53edbe986) MISMATCH",
                        "  Communicator ranks have different collective operation counts",
                        "  26 ranks have launched up to operation 6650",
                        "  6 ranks have launched up to operation 6649",
                        "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210"};

// NCCL 2.28.9 answered this on an H200 while a rank of two was stopped.
constexpr std::string_view kStopped = R"(NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          2            1          2        2

Communicators... (0.000s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         1         2         1   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 734 on node 127.0.0.1 managing GPU 0

#0-0 (526b40a379f6f4ad) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 0 managed by process 734 on node 127.0.0.1

Warnings
========

)";

// Plays the service on the test's own thread, because Catch2's assertions must be called from one thread. Another
// thread asks.
class Service {
 public:
  explicit Service(std::chrono::milliseconds patience = test::kPatience)
      : source_(std::async(std::launch::async, [port = socket_.listen().port(), patience] {
          return ask_ras("127.0.0.1", port, std::chrono::steady_clock::now() + patience);
        })) {}

  test::RawPeer accept() { return test::RawPeer(socket_.accept()); }
  // Plays the whole conversation up to the answer.
  test::RawPeer is_asked_for_status() {
    test::RawPeer peer = accept();
    peer.hears("CLIENT PROTOCOL 2\n").says("SERVER PROTOCOL 2\n");
    hears_timeout(peer);
    peer.says("OK\n").hears("VERBOSE STATUS\n");
    return peer;
  }
  static int hears_timeout(test::RawPeer& peer) {
    peer.hears("TIMEOUT ");
    std::string seconds;
    while (!seconds.ends_with('\n')) seconds += peer.hears_bytes(1);
    return std::atoi(seconds.c_str());
  }
  EvidenceSource source() { return source_.get(); }
  std::string place() const { return "127.0.0.1:" + std::to_string(socket_.port()); }

 private:
  test::BoundSocket socket_;
  std::future<EvidenceSource> source_;
};

}  // namespace

TEST_CASE("the RAS service is asked for its status, and the whole answer is kept") {
  Service service(2900ms);
  test::RawPeer peer = service.accept();
  peer.hears("CLIENT PROTOCOL 2\n").says("SERVER PROTOCOL 2\n");
  peer.hears("TIMEOUT 1\n").says("OK\n");
  peer.hears("VERBOSE STATUS\n").says(kStatus).vanishes();
  CHECK(service.source() == EvidenceSource{"NCCL RAS", std::string(kStatus), kEssence, {}});
}

TEST_CASE("the RAS service gets a second less than the launcher has") {
  Service service(20s);
  test::RawPeer peer = service.accept();
  peer.hears("CLIENT PROTOCOL 2\n").says("SERVER PROTOCOL 2\n");
  const int seconds = Service::hears_timeout(peer);
  CHECK(seconds <= 18);
  CHECK(seconds >= 10);
}

TEST_CASE("each version of the RAS protocol is accepted in upper or lower case") {
  Service service;
  test::RawPeer peer = service.accept();
  peer.hears("CLIENT PROTOCOL 2\n").says("server protocol 17\r\n");
  Service::hears_timeout(peer);
  peer.says("ok\r\n").hears("VERBOSE STATUS\n").says("all is well\n").vanishes();
  CHECK(service.source() == EvidenceSource{"NCCL RAS", "all is well\n", {}, {}});
}

TEST_CASE("an answer of RAS that arrives byte by byte is read completely") {
  Service service;
  test::RawPeer peer = service.accept();
  const int on = 1;
  REQUIRE(::setsockopt(peer.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  for (const char byte : "SERVER PROTOCOL 2\nOK\n" + std::string(kStatus)) peer.says({&byte, 1});
  peer.hears("CLIENT PROTOCOL 2\n");
  Service::hears_timeout(peer);
  peer.hears("VERBOSE STATUS\n").vanishes();
  CHECK(service.source() == EvidenceSource{"NCCL RAS", std::string(kStatus), kEssence, {}});
}

TEST_CASE("a port without a RAS service is reported with the possible reasons") {
  const test::BoundSocket nobody;
  const EvidenceSource source = ask_ras("127.0.0.1", nobody.port(), test::soon());
  const std::string place = "127.0.0.1:" + std::to_string(nobody.port());
  CHECK(source.text.empty());
  CHECK(
      source.missing ==
      Lines{
          "no process listens on " + place +
          " (connection refused): NCCL is older than 2.24, has created no communicator yet, or NCCL_RAS_ENABLE is 0"});
}

TEST_CASE("a RAS service that falls silent is given up at the deadline") {
  Service service(300ms);
  SECTION("at once") {
    CHECK(service.source().missing == Lines{service.place() + " did not answer in time"});
  }
  SECTION("within the first line") {
    test::RawPeer peer = service.accept();
    peer.says("SERVER PROT");
    CHECK(service.source().missing == Lines{service.place() + " did not answer in time"});
  }
}

TEST_CASE("another rank's RAS service is asked if a stopped rank accepts the connection") {
  Service service(4s);
  const test::RawPeer stopped = service.accept();
  test::RawPeer half_stopped = service.accept();
  half_stopped.says("SERVER PROT");
  service.is_asked_for_status().says("all is well\n").vanishes();
  CHECK(service.source() == EvidenceSource{"NCCL RAS", "all is well\n", {}, {}});
}

TEST_CASE("a RAS service that never answers is given up at the deadline") {
  Service service(2s);
  const test::RawPeer peer = service.is_asked_for_status();
  CHECK(service.source() == EvidenceSource{"NCCL RAS", "", {}, {service.place() + " did not answer in time"}});
}

TEST_CASE("a RAS client whose deadline has expired reports that the service did not answer in time") {
  Service service(-1ms);
  CHECK(service.source().missing == Lines{service.place() + " did not answer in time"});
}

TEST_CASE("the reply of another program at the RAS port is quoted") {
  Service service;
  test::RawPeer peer = service.accept();
  std::string quoted;
  SECTION("a web server") {
    peer.says("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n");
    quoted = "HTTP/1.1 400 Bad Request";
  }
  SECTION("binary garbage") {
    peer.says({"\x16\x03\x01\x00\xff\xfe\x1b[2J\n", 11});
    quoted = "\\x16\\x03\\x01\\x00\\xff\\xfe\\x1b[2J";
  }
  SECTION("a line without an end") {
    peer.says(std::string(5000, 'x'));
    quoted = std::string(37, 'x') + "...";
  }
  SECTION("a line that is broken off") {
    peer.hears("CLIENT PROTOCOL 2\n").says("220 mail").vanishes();
    quoted = "220 mail";
  }
  SECTION("it refuses what RAS knows") {
    peer.hears("CLIENT PROTOCOL 2\n").says("SERVER PROTOCOL 2\n");
    Service::hears_timeout(peer);
    peer.says("ERROR: Unknown command\n");
    quoted = "ERROR: Unknown command";
  }
  const EvidenceSource source = service.source();
  CHECK(source.text.empty());
  CHECK(source.missing == Lines{service.place() + " does not use NCCL's RAS protocol ('" + quoted + "')"});
}

TEST_CASE("a RAS service that closes the connection early is reported with the unanswered question") {
  Service service;
  test::RawPeer peer = service.accept();
  std::string unanswered;
  peer.hears("CLIENT PROTOCOL 2\n");
  SECTION("upon the greeting") {
    unanswered = "CLIENT PROTOCOL 2";
  }
  SECTION("upon the question") {
    peer.says("SERVER PROTOCOL 2\n");
    Service::hears_timeout(peer);
    peer.says("OK\n").hears("VERBOSE STATUS\n");
    unanswered = "VERBOSE STATUS";
  }
  peer.vanishes();
  const EvidenceSource source = service.source();
  CHECK(source.text.empty());
  CHECK(source.missing ==
        Lines{service.place() + " did not answer " + unanswered + ": the other side closed the connection"});
}

TEST_CASE("an interrupted answer of RAS is kept as far as it arrived") {
  Service service;
  service.is_asked_for_status().says("Errors\n======\nDEAD\nCommunicators...").vanishes();
  const EvidenceSource source = service.source();
  CHECK(source.text == "Errors\n======\nDEAD\nCommunicators...");
  CHECK(source.essence == Lines{"DEAD", "Communicators..."});
  CHECK(source.missing ==
        Lines{service.place() +
              " closed the connection in the middle of its answer: the other side closed the connection"});
}

TEST_CASE("an answer of RAS that is incomplete at the deadline is kept as far as it arrived") {
  Service service(2s);
  test::RawPeer peer = service.is_asked_for_status();
  peer.says("Errors\n======\nDEAD\n");
  const EvidenceSource source = service.source();
  CHECK(source.text == "Errors\n======\nDEAD\n");
  CHECK(source.essence == Lines{"DEAD"});
  CHECK(source.missing == Lines{service.place() + " did not complete its answer in time; the rest is missing"});
}

TEST_CASE("an endless answer of RAS is cut") {
  Service service;
  test::RawPeer peer = service.is_asked_for_status();
  // The buffers of a connection cannot hold this much, so the sending ends only when the client closes the connection.
  peer.tries_to_say(std::string(std::size_t{32} << 20, 'x'));
  const EvidenceSource source = service.source();
  CHECK(source.text == std::string(kRasTextBytes, 'x'));
  CHECK(source.missing == Lines{service.place() + " sent more than 1 MiB; the rest is omitted"});
}

TEST_CASE("an answer of RAS with exactly the maximum length is complete") {
  Service service;
  const std::string text = std::string(kRasTextBytes - 1, 'x') + "\n";
  service.is_asked_for_status().says(text).vanishes();
  const EvidenceSource source = service.source();
  CHECK(source.text == text);
  CHECK(source.missing.empty());
}

TEST_CASE("the essence of a RAS status is the text below its errors and warnings") {
  CHECK(ras_essence(kStatus, 8) == kEssence);
  CHECK(ras_essence(kStatus, 7).back() == "… and 1 more line");
  CHECK(ras_essence(kStatus, 7).size() == 8);
  CHECK(ras_essence(kStatus, 0) == Lines{"… and 8 more lines"});
}

TEST_CASE("a RAS status without errors and warnings has no essence") {
  CHECK(ras_essence("", 10).empty());
  CHECK(ras_essence("Errors\nare not underlined\n", 10).empty());
  CHECK(ras_essence("Errors\n======\n\n  \nWarnings\n========\n\n", 10).empty());
  CHECK(ras_essence("Errors\n======\nWarnings\n========", 10).empty());
  CHECK(ras_essence(kStatus.substr(0, kStatus.find("Errors\n=")), 10).empty());
}

TEST_CASE("text below another heading of the RAS status is not an error") {
  CHECK(ras_essence("Errors\r\n======\r\nDEAD\r\nPeers\r\n=====\r\nalive\r\n", 10) == Lines{"DEAD"});
}

TEST_CASE("the essence of binary garbage is printable and short") {
  const std::string rubbish = std::string("\x1b[31m\0\t\xff\x9b", 9) + std::string(1000, '\x07') + "\n";
  CHECK(ras_essence(rubbish, 10).empty());
  const Lines essence = ras_essence("Warnings\n=\n" + rubbish + rubbish + rubbish, 2);
  REQUIRE(essence.size() == 3);
  CHECK(essence[0].size() == kRasEssenceBytes);
  CHECK(essence[0].starts_with("\\x1b[31m\\x00\t\\xff\\x9b"));
  CHECK(std::ranges::all_of(essence[1], [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; }));
  CHECK(essence[2] == "… and 1 more line");
  CHECK(ras_essence("Errors\n=\n" + std::string(1 << 20, '='), 10).size() == 1);
  CHECK(ras_essence("Errors\n=\n" + std::string(1 << 20, '\n'), 10).empty());
}

TEST_CASE("the RAS status of NCCL 2.28 about a stopped rank is parsed") {
  Service service;
  test::RawPeer peer = service.is_asked_for_status();
  peer.says(kStopped).vanishes();
  const EvidenceSource source = service.source();
  CHECK(source.essence == Lines{"INCOMPLETE", "  Missing communicator data from 1 job process",
                                "  Process 734 on node 127.0.0.1 managing GPU 0", "#0-0 (526b40a379f6f4ad) INCOMPLETE",
                                "  Missing communicator data from 1 rank",
                                "  Rank 1 -- GPU 0 managed by process 734 on node 127.0.0.1"});
}
