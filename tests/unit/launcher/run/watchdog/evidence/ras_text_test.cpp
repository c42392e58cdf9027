#include "launcher/run/watchdog/evidence/ras_text.h"

#include <string>
#include <vector>

#include "launcher/run/ranks/launches.h"
#include "launcher/run/ranks/root_causes.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

// The lines are those of src/ras/client_support.cc in NCCL 2.24 to 2.28.3.
std::string text_with(const std::string& warnings) {
  return "NCCL version 2.27.7 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\n"
         "Job summary\n===========\n\n  Nodes  Processes         GPUs\n\nCommunicators... (0.00s)\n=============\n\n"
         "Errors\n======\n\nWarnings\n========\n\n" +
         warnings;
}

std::string different(const std::string& function, const std::string& lines) {
  return "  Communicator ranks have different " + function + " operation counts\n" + lines + "\n";
}

std::string member(int rank, int pid) {
  return "  Rank " + std::to_string(rank) + " -- GPU 0 managed by process " + std::to_string(pid) +
         " on node 10.0.0.1\n";
}

const std::string kOneBehind =
    "#0-0 (764630317c048e16) MISMATCH\n" +
    different("AllReduce",
              "  3 ranks have launched up to operation 8\n"
              "  Rank 2 has launched up to operation 7 -- GPU 2 managed by process 102 on node 10.0.0.1\n");

// Ranks 0 to n - 1 have the pids from 100 on.
std::vector<RankView> job_of(int n) {
  std::vector<RankView> ranks(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    ranks[static_cast<std::size_t>(i)].rank = i;
    ranks[static_cast<std::size_t>(i)].pid = 100 + i;
  }
  return ranks;
}

std::vector<Verdict> verdicts(const RasStatus& status, int ranks) {
  std::vector<RankView> job = job_of(ranks);
  add_launches(status, job);
  complete_launches(job, {});
  return find_verdicts(job);
}

}  // namespace

TEST_CASE("the RAS text lists the ranks that have launched less than most others") {
  const RasStatus status = read_ras_text(text_with(kOneBehind));
  REQUIRE(status.size() == 1);
  CHECK(status[0].hash == 0x764630317c048e16);
  CHECK(status[0].size == 4);
  REQUIRE(status[0].members.size() == 1);
  CHECK((status[0].members[0].rank == 2 && status[0].members[0].pid == 102));
  CHECK(status[0].members[0].launched.at("AllReduce") == 7);
  CHECK(status[0].unlisted->at("AllReduce") == 8);
}

TEST_CASE("the rank that the others wait for is named from the RAS text") {
  const auto found = verdicts(read_ras_text(text_with(kOneBehind)), 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::not_called);
  CHECK(found[0].culprits == std::vector<int>{2});
  CHECK(found[0].waiting == std::vector<int>{0, 1, 3});
  CHECK(found[0].sequence == 8);
}

TEST_CASE("several ranks that have launched less are listed one by one") {
  const RasStatus status = read_ras_text(text_with(
      "#1-2 (00000000000000ab) MISMATCH\n"
      "  Communicator ranks have different status\n"
      "  5 ranks have status RUNNING\n  Rank 4 has status FINALIZE -- GPU 0 managed by process 104 on node n\n" +
      different("AllGather", "  4 ranks have launched up to operation 9\n  2 ranks have not launched any operations\n" +
                                 member(1, 101) + member(5, 105)) +
      different("AllReduce",
                "  5 ranks have launched up to operation 3\n"
                "  Rank 5 has not launched any operations -- GPU 0 managed by process 105 on node n\n")));
  REQUIRE(status.size() == 1);
  CHECK(status[0].size == 6);
  CHECK(verdicts(status, 6)[0].culprits == std::vector<int>{5});  // rank 1 has launched more
  CHECK(status[0].unlisted->at("AllReduce") == 3);
}

TEST_CASE("both of two differing ranks are listed") {
  const RasStatus status = read_ras_text(
      text_with("#0-0 (1) MISMATCH\n" +
                different("AllReduce",
                          "  Rank 0 has launched up to operation 8 -- GPU 0 managed by process 100 on node n\n"
                          "  Rank 1 has launched up to operation 7 -- GPU 1 managed by process 101 on node n\n")));
  CHECK(verdicts(status, 2)[0].culprits == std::vector<int>{1});
}

TEST_CASE("information that is missing in the RAS text is not guessed") {
  const std::string head = "#0-0 (1) MISMATCH\n";
  // Two halves differ, a process is unknown, the list is cut off, or the end is missing.
  for (const std::string& lines :
       {different("AllReduce",
                  "  2 ranks have launched up to operation 8\n  2 ranks have launched up to operation 7\n"),
        different("AllReduce",
                  "  3 ranks have launched up to operation 8\n"
                  "  Rank 2 has launched up to operation 7 -- [process information not found]\n"),
        different(
            "AllReduce",
            "  4 ranks have launched up to operation 8\n  2 ranks have not launched any operations\n" + member(1, 101)),
        std::string()}) {
    const RasStatus status = read_ras_text(text_with(head + lines));
    REQUIRE(status.size() == 1);
    CHECK(status[0].size == 0);
    CHECK(verdicts(status, 4).empty());
  }
  // The communicator is not that of all ranks, or its order is another one.
  CHECK(verdicts(read_ras_text(text_with(kOneBehind)), 8).empty());
  CHECK(verdicts(
            read_ras_text(text_with("#0-0 (1) MISMATCH\n" +
                                    different("AllReduce",
                                              "  3 ranks have launched up to operation 8\n"
                                              "  Rank 1 has launched up to operation 7 -- GPU 2 managed by process 102 "
                                              "on node 10.0.0.1\n"))),
            4)
            .empty());
  // NCCL 2.24 and 2.25 count all functions together. A rank that is ahead may be the root of a broadcast.
  CHECK(verdicts(read_ras_text(text_with("#0-0 (1) MISMATCH\n" +
                                         different("collective",
                                                   "  3 ranks have launched up to operation 8\n"
                                                   "  Rank 2 has launched up to operation 7 -- GPU 2 managed by "
                                                   "process 102 on node 10.0.0.1\n"))),
                 4)
            .empty());
}

TEST_CASE("members that the RAS text no longer lists have caught up") {
  const RasStatus before = read_ras_text(text_with(kOneBehind));
  RasStatus now = read_ras_text(text_with(""));
  keep_what_is_left_out(before, now);
  REQUIRE(now.size() == 1);
  CHECK(now[0].members.empty());
  CHECK(now[0].unlisted->at("AllReduce") == 8);
  CHECK(verdicts(now, 4).empty());
  // Another function differs now.
  RasStatus other = read_ras_text(
      text_with("#0-0 (764630317c048e16) MISMATCH\n" +
                different("AllGather",
                          "  3 ranks have launched up to operation 2\n"
                          "  Rank 1 has launched up to operation 1 -- GPU 1 managed by process 101 on node n\n")));
  keep_what_is_left_out(before, other);
  const auto found = verdicts(other, 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].culprits == std::vector<int>{1});
  CHECK(found[0].sequence == 10);
  // If the text does not say enough now, what it said before counts, and may have changed.
  RasStatus unknown = read_ras_text(text_with("#0-0 (764630317c048e16) MISMATCH\n"));
  keep_what_is_left_out(before, unknown);
  CHECK(unknown == before);
}

TEST_CASE("RAS text with impossible ranks and counts leads to no verdict, and truncated text to one at most") {
  CHECK(is_ras_text("NCCL version 2.27.7"));
  CHECK_FALSE(is_ras_text("{\"nccl_version\""));
  const std::string whole = text_with(kOneBehind);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const RasStatus status = read_ras_text(whole.substr(0, length));
    CHECK(verdicts(status, 4).size() <= 1);
  }
  for (const char* lines :
       {"#0-0 (zz) MISMATCH\n", "#0-0 (0) MISMATCH\n", "#0-0 (1) MISMATCH\n  Rank 7 -- GPU managed by process 3\n",
        "#0-0 (1) MISMATCH\n  Communicator ranks have different \n  5 ranks have launched up to operation 7\n",
        "#0-0 (1) MISMATCH\n  Communicator ranks have different X operation counts\n"
        "  99999999999999999999 ranks have launched up to operation 7\n  Rank -1 has launched up to operation 7\n"
        "  18446744073709551615 ranks have launched up to operation 18446744073709551615\n"}) {
    for (const RasCommunicator& communicator : read_ras_text(text_with(lines))) {
      CHECK(verdicts({communicator}, 4).empty());
    }
  }
}
