#include "launcher/see/view/collective_table.h"

#include "launcher/see/view/history_limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::wire::RecordKind;

namespace {

constexpr std::uint8_t kAllReduce = 0;
constexpr std::uint8_t kAllGather = 3;

RankRecords records_of(int rank, std::vector<Record> records) {
  return {rank, "", 0, 0, {{}, {77, "world", 2}}, {"", "bucket 0"}, std::move(records)};
}

Record collective(std::uint32_t number, std::uint64_t begin, std::uint64_t end, std::uint8_t operation = kAllReduce) {
  return {RecordKind::collective, operation, 1, 1, number, begin, end, 1000};
}

}  // namespace

TEST_CASE("a row shows the times, the last caller and the rates of a collective") {
  CollectiveTable table;
  for (std::uint32_t i = 1; i <= 10; ++i) {
    const std::uint64_t begin = i * 1'000'000;
    table.add(records_of(0, {collective(i, begin, begin + 50'000)}));
    // Rank 1 calls 40 us later, except for the last one.
    const std::uint64_t late = i == 10 ? begin - 10'000 : begin + 40'000;
    table.add(records_of(1, {collective(i, late, begin + 50'000)}));
  }
  const auto rows = table.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].operation == "all_reduce");
  CHECK(rows[0].name == "bucket 0");
  CHECK(rows[0].group == "world");
  CHECK(rows[0].size == 2);
  CHECK(rows[0].count == 10);
  CHECK(rows[0].matched == 10);
  CHECK(rows[0].bytes == 1000);
  CHECK(rows[0].last_rank == 1);
  CHECK(rows[0].last_count == 9);
  CHECK(*rows[0].transfer_median == Approx(10e-6).epsilon(0.03));
  CHECK(*rows[0].algorithm_rate == Approx(1000 / 10e-6).epsilon(0.03));
  CHECK(*rows[0].bus_rate == Approx(*rows[0].algorithm_rate));  // 2 (n - 1) / n is 1 for two ranks
  CHECK(rows[0].longest == Approx(60e-6));
}

TEST_CASE("the GPU's time determines the rates, and each rank of an all_gather records its part") {
  CollectiveTable table;
  Record gpu = collective(1, 0, 5'000, kAllGather);
  gpu.kind = RecordKind::gpu;
  table.add(records_of(0, {collective(1, 0, 90'000, kAllGather), gpu}));
  const auto rows = table.rows();
  REQUIRE(rows.size() == 1);
  CHECK(*rows[0].gpu_median == Approx(5e-6).epsilon(0.03));
  CHECK(*rows[0].algorithm_rate == Approx(2000 / 5e-6).epsilon(0.03));
  CHECK(*rows[0].bus_rate == Approx(1000 / 5e-6).epsilon(0.03));
  CHECK(rows[0].matched == 0);
  CHECK_FALSE(rows[0].last_rank);
}

TEST_CASE("the bus bandwidth factors are those of nccl-tests") {
  CHECK(bus_factor("all_reduce", 4) == Approx(1.5));
  CHECK(bus_factor("all_gather", 4) == Approx(0.75));
  CHECK(bus_factor("broadcast", 4) == Approx(1));
  CHECK(whole_bytes("reduce_scatter", 4, 8) == Approx(32));
  CHECK(whole_bytes("all_reduce", 4, 8) == Approx(8));
}

TEST_CASE("transfers and steps are not counted as collectives") {
  CollectiveTable table;
  Record send = collective(1, 10, 2010, 9);
  send.kind = RecordKind::transfer;
  Record step = collective(1, 10, 2010);
  step.kind = RecordKind::step;
  table.add(records_of(0, {send, step}));
  const auto rows = table.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].operation == "send");
  CHECK(rows[0].count == 1);
  CHECK(rows[0].matched == 0);
  CHECK(rows[0].algorithm_rate.has_value());
}

TEST_CASE("the table of collectives stays within its limits for any number of names") {
  CollectiveTable table;
  RankRecords records = records_of(0, {});
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    records.names.push_back("name " + std::to_string(i));
    Record record = collective(i, i, i + 1);
    record.name = static_cast<std::uint16_t>(2 + i);
    records.records.push_back(record);
  }
  table.add(records);
  CHECK(table.rows().size() == ddp::limits::kHistoryCollectives);
  CHECK(table.left_out() == 20'000 - ddp::limits::kHistoryCollectives);
}

TEST_CASE("a collective with unknown end is counted without a duration") {
  CollectiveTable table;
  table.add(records_of(0, {collective(1, 100, 100), collective(2, 200, 900)}));
  table.add(records_of(1, {collective(1, 150, 150), collective(2, 250, 900)}));
  const auto rows = table.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 2);
  CHECK(rows[0].matched == 2);
  CHECK(rows[0].median > 600e-9);
  REQUIRE(rows[0].transfer_median);
  CHECK(*rows[0].transfer_median == Approx(650e-9).epsilon(0.05));
}

TEST_CASE("CollectiveTable shows an unknown operation as ? and leaves out records that end before they begin") {
  CollectiveTable table;
  Record garbage{RecordKind::collective, 200, 99, 99, 7, 5, 9, UINT64_MAX};
  Record backwards = collective(1, 100, 5);
  table.add(records_of(-5, {garbage, backwards}));
  const auto rows = table.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].operation == "?");
  CHECK(rows[0].name.empty());
}
