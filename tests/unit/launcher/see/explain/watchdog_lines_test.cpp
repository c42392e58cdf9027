#include "launcher/see/explain/watchdog_lines.h"

#include <algorithm>
#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

std::vector<CollectiveRecords> read(const std::vector<std::string>& lines, std::optional<int> rank = std::nullopt) {
  WatchdogLines reader;
  for (const std::string& line : lines) reader.add(rank, line);
  return reader.records();
}

const std::string kCaught =
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.";

}  // namespace

TEST_CASE("watchdog messages of PyTorch 2.1 and 2.2 have no process group name") {
  const auto records = read({"[E ProcessGroupNCCL.cpp:474] [Rank 3] " + kCaught}, 7);
  REQUIRE(records.size() == 1);
  CHECK(records[0].rank == 7);
  CHECK(records[0].group.empty());
  CHECK(records[0].last_enqueued == 5);
  REQUIRE(records[0].calls.size() == 1);
  CHECK(records[0].calls[0] == RecordedCall{5, "all_reduce", 1024, "", CallState::timed_out, false});
  CHECK(read({"[E ProcessGroupNCCL.cpp:474] [Rank 3] " + kCaught})[0].rank == -1);  // a rank of any group
}

TEST_CASE("watchdog messages of PyTorch 2.3 number the groups per process") {
  const std::string status = " Timeout at NCCL work: 5, last enqueued NCCL work: 6, last completed NCCL work: 4.";
  const auto records = read({"[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] " + kCaught,
                             "[rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 1]" + status,
                             "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank 1]" + status});
  REQUIRE(records.size() == 2);
  CHECK(records[0].rank == 1);
  CHECK(records[0].group == "0");
  CHECK(records[0].last_enqueued == 6);
  CHECK(records[0].last_completed == 4);
  REQUIRE(records[0].calls.size() == 1);
  CHECK(records[0].calls[0].operation == "all_reduce");
  CHECK(records[1].rank == 2);
  CHECK(records[1].group.empty());
  CHECK(records[1].description == "PG 1");
}

TEST_CASE("an unset number in a PyTorch 2.3 message is ignored") {
  const auto records =
      read({"[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last "
            "enqueued NCCL work: 1, last completed NCCL work: 76280750235782912."});
  REQUIRE(records.size() == 1);
  CHECK(records[0].last_enqueued == 1);
  CHECK_FALSE(records[0].last_completed.has_value());
}

TEST_CASE("watchdog messages of PyTorch 2.4 and 2.5 name the group") {
  const std::string status =
      "Exception (either an error or timeout) detected by watchdog at work: 5, last enqueued NCCL work: 6, last "
      "completed NCCL work: -1.";
  const auto records =
      read({"[rank3]:[E1003 18:37:01.8 ProcessGroupNCCL.cpp:1664] [PG 2 (tp) Rank 1] " + status,
            "[rank4]:[E1003 18:37:01.8 ProcessGroupNCCL.cpp:1664] [PG 3 Rank 0] " + status,
            "[rank5]:[E227 16:30:43.5 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 9 Rank 3] " + status});
  REQUIRE(records.size() == 3);
  CHECK(records[0].rank == 3);
  CHECK(records[0].rank_of_group == 1);
  CHECK(records[0].group == "2");
  CHECK(records[0].description == "tp");
  CHECK(records[0].last_completed == 0);
  CHECK(records[1].group == "3");
  CHECK(records[2].group == "9");
  CHECK(records[2].calls[0].state == CallState::enqueued);  // it may have failed otherwise
}

TEST_CASE("the status lines of PyTorch 2.6 to 2.14 are parsed") {
  const auto records = read(
      {"[rank1]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:629] [Rank 1] " + kCaught,
       "[rank1]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected "
       "by watchdog at work sequence id: 5 PG status: last enqueued work: 8, last completed work: 4",
       "[rank2]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 2]  failure detected "
       "by watchdog at work sequence id: 5 PG status: last enqueued work: 8, last started work: 5, last completed "
       "work: 4",
       "[rank3]:[E703 15:37:17.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump "
       "signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. Last enqueued "
       "NCCL work: 4, last completed NCCL work: 4.This is most likely caused by incorrect usages of collectives"});
  REQUIRE(records.size() == 3);
  CHECK(records[0].group == "0");
  CHECK(records[0].calls[0].numel_in == 1024);
  CHECK(records[0].last_enqueued == 8);
  CHECK(records[2].rank == 3);
  CHECK(records[2].last_enqueued == 4);
  CHECK(records[2].last_completed == 4);
  CHECK(records[2].calls.empty());
}

TEST_CASE("a message that a terminal has wrapped still names its group") {
  const auto records = read({"[rank4]:[E430 05:09:48.8 ProcessGroupNCCL.cpp:632] [Rank 4] " + kCaught,
                             "[rank4]:[E430 05:09:48.8 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank "
                             "4]  failure detected by "
                             "watchdog at work sequence id: 5 PG status: ",
                             "last enqueued work: 5, last completed work: 4"});
  REQUIRE(records.size() == 1);
  CHECK(records[0].group == "0");
  CHECK(records[0].last_enqueued == 5);
  CHECK_FALSE(records[0].last_completed.has_value());
  CHECK(records[0].calls[0].operation == "all_reduce");
}

TEST_CASE("PyTorch 2.14 names the group in the first line of its message") {
  const auto records =
      read({"[rank3]:[E1104 12:00:00.1 ProcessGroupNCCL.cpp:757] [PG GUID 4(mesh_(dp)) Rank 1] " + kCaught});
  REQUIRE(records.size() == 1);
  CHECK(records[0].rank == 3);
  CHECK(records[0].group == "4");
  CHECK(records[0].description == "mesh_(dp)");
  CHECK(records[0].rank_of_group == 1);
}

TEST_CASE("without a tag only the default group maps to ranks of the job") {
  const auto records =
      read({"[PG ID 0 PG GUID 0(default_pg) Rank 2]  failure detected by watchdog at work sequence id: 5 "
            "PG status: last enqueued work: 5, last completed work: 4",
            "[PG ID 1 PG GUID 7 Rank 2]  failure detected by watchdog at work sequence id: 3 PG status: "
            "last enqueued work: 3, last completed work: 2"});
  REQUIRE(records.size() == 2);
  CHECK(records[0].rank == 2);
  CHECK(records[1].rank == -1);
  CHECK(records[1].rank_of_group == 2);
}

TEST_CASE("point-to-point calls make the sequence numbers unusable") {
  const auto records =
      read({"[rank0]:[E ProcessGroupNCCL.cpp:563] [PG GUID 0(default_pg) Rank 0] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=7, OpType=SEND, NumelIn=8, NumelOut=8, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."});
  REQUIRE(records.size() == 1);
  CHECK(records[0].has_mixed_numbers);
}

TEST_CASE("PyTorch's own report about all ranks is parsed") {
  const auto records =
      read({"[E ProcessGroupNCCL.cpp:474] [Rank 0] " + kCaught, "\t - [0] Timeout at collective: ALLREDUCE, #5",
            "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
            "\t     [1] finished collective #4, but didn't join collective #5 (count from 1)",
            "\t - Snapshot of ranks' latest states:", "\t   #4 finished ranks:", "\t     [1] finished ALLREDUCE",
            "\t   #5 started ranks:", "\t     [0, 2, 3] started ALLREDUCE"},
           0);
  REQUIRE(records.size() == 5);
  const auto of_rank = [&](int rank) {
    return *std::find_if(records.begin(), records.end(),
                         [&](const CollectiveRecords& one) { return one.report == 1 && one.rank_of_group == rank; });
  };
  CHECK(of_rank(1).last_enqueued == 4);
  CHECK(of_rank(1).last_completed == 4);
  CHECK(of_rank(2).last_enqueued == 5);
  CHECK(of_rank(2).calls[0].operation == "all_reduce");
  CHECK(of_rank(2).group_size == 4);
}

TEST_CASE("ranks that never joined are parsed from the message") {
  const auto records =
      read({"\t - [0] Timeout at collective: BROADCAST, #1",
            "\t - To our best knowledge, ranks [1, 2] are the lagging ranks that caused this timeout. They "
            "never joined any collectives"},
           0);
  REQUIRE(records.size() == 3);
  CHECK(records[0].rank_of_group == 1);
  CHECK(records[0].last_enqueued == 0);
  CHECK(records[2].rank_of_group == 0);  // which waits
  CHECK(records[2].last_enqueued == 1);
  CHECK(records[2].last_completed == 0);
  CHECK_FALSE(records[0].group_size.has_value());
}

TEST_CASE("lines that are no watchdog messages are ignored") {
  CHECK(read({"", "step 5: last enqueued", "[Rank 3] started", "\t     [1] finished ALLREDUCE", "[PG ", "[PG 1 Rank ]",
              "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1)",
              "[rank99999999999]:[E] PG status: last enqueued work: x"})
            .empty());
  CHECK_FALSE(may_be_watchdog_line("epoch 3: loss 0.5"));
  for (const std::string_view word : watchdog_words()) CHECK(word.size() >= 8);
}

TEST_CASE("operations are translated to the names of the flight recorder") {
  CHECK(operation_name("ALLREDUCE") == "all_reduce");
  CHECK(operation_name("_ALLGATHER_BASE") == "_all_gather_base");
  CHECK(operation_name("BROADCAST") == "broadcast");
}
