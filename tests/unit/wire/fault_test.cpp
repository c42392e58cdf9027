#include "wire/fault.h"

#include "support/catch.h"

namespace ddp::wire {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;

TEST_CASE("a fault is parsed into rank, place and kind") {
  CHECK(parse_fault("rank=2,at=allreduce:100,kind=stop").value() ==
        Fault{2, "all_reduce", 100, FaultKind::stop, milliseconds(0), 0});
  CHECK(parse_fault("kind=spin,at=All-Gather,rank=0,attempt=1").value() ==
        Fault{0, "all_gather", 1, FaultKind::spin, milliseconds(0), 1});
  CHECK(parse_fault("rank=1,at=any:7,kind=skip").value() == Fault{1, "", 7, FaultKind::skip, milliseconds(0), 0});
}

TEST_CASE("a delay fault has a duration") {
  CHECK(parse_fault("rank=1,at=any,kind=delay=5s").value().delay == milliseconds(5000));
  CHECK(parse_fault("rank=1,at=any,kind=delay=250ms").value().delay == milliseconds(250));
  CHECK(parse_fault("rank=1,at=1m,kind=delay=1m30s").value().delay == milliseconds(90'000));
  CHECK(parse_fault("rank=1,at=any,kind=delay=0.5").value().delay == milliseconds(500));
}

TEST_CASE("a timed fault needs no call") {
  const Fault fault = parse_fault("rank=2,at=1.5s,kind=delay=5s").value();
  CHECK(fault.after == milliseconds(1500));
  CHECK(fault.delay == milliseconds(5000));
  CHECK(parse_fault("kind=kill,rank=0,at=20ms").value().after == milliseconds(20));
  CHECK_FALSE(parse_fault("rank=1,at=any:7,kind=skip").value().after);
}

TEST_CASE("an invalid fault is rejected with the valid forms") {
  const auto says = [](const char* text, const char* what) {
    CAPTURE(text);
    const auto fault = parse_fault(text);
    REQUIRE_FALSE(fault);
    CHECK_THAT(fault.error().message, Contains(what) && Contains("rank=2,at=all_reduce:100"));
  };
  says("", "is not one of rank=, at=, kind=");
  says("rank=1,at=any:3", "kind= is missing");
  says("at=any:3,kind=stop", "rank= is missing");
  says("rank=-1,at=any:3,kind=stop", "rank=-1 is not a whole number");
  says("rank=1,at=reduce_all:3,kind=stop", "reduce_scatter");
  says("rank=1,at=any:0,kind=stop", "'any:0'");
  says("rank=1,at=any:x,kind=stop", "'any:x'");
  says("rank=1,at=any:3,kind=explode", "stop, skip, swap");
  says("rank=1,at=any:3,kind=delay", "delay needs a time");
  says("rank=1,at=any:3,kind=delay=soon", "delay needs a time");
  says("rank=1,at=any:3,kind=stop=5s", "is not a kind of fault");
  says("rank=1,rank=2,at=any:3,kind=stop", "twice");
  says("rank=1,at=10x,kind=stop", "'10x' is not a valid place");
  says("rank=1,at=10s,kind=swap", "only stop, kill and delay can happen at a time; 'swap' needs a call");
}

TEST_CASE("several faults are separated by spaces") {
  CHECK(parse_faults("").value().empty());
  CHECK(parse_faults(" rank=0,at=any:1,kind=kill  rank=1,at=any:2,kind=stop").value().size() == 2);
  CHECK_THAT(parse_faults("rank=0,at=any:1,kind=kill oops").error().message,
             StartsWith("'oops': 'oops' is not one of"));
  CHECK_THAT(parse_faults("oops").error().message, StartsWith("'oops' is not one of"));
}

}  // namespace
}  // namespace ddp::wire
