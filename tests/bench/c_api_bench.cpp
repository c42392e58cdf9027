// c_api_bench: compares the cost of a small all_reduce through <ddp/c.h> and through the C++ function. The two take
// turns. Prints JSON, in nanoseconds: the median of the rounds, and the fastest round.
//
//   ddplaunch -q --nproc-per-node=2 --backend=cpu c_api_bench
#include <ddp/c.h>
#include <ddp/ddp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 31;

template <typename Operation>
double nanoseconds_per_call(const Operation& operation) {
  constexpr int kCalls = 20'000;
  const auto begin = Clock::now();
  for (int i = 0; i < kCalls; ++i) operation();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls;
}

void print(const char* name, std::vector<double> times, const char* end) {
  std::sort(times.begin(), times.end());
  std::printf("\"%s\": {\"median_ns\": %.1f, \"least_ns\": %.1f}%s", name, times[kRounds / 2], times[0], end);
}

}  // namespace

int main() {
  ddp::ProcessGroup group = ddp::init();
  ddp_group* handle = nullptr;
  if (ddp_init(nullptr, &handle) != DDP_OK) return 1;
  std::vector<float> value(1);
  std::vector<double> in_cpp;
  std::vector<double> in_c;
  std::vector<double> of_arguments;
  int failed = 0;
  for (int round = 0; round < kRounds; ++round) {
    in_cpp.push_back(nanoseconds_per_call([&] { group.all_reduce(value).wait(); }));
    in_c.push_back(nanoseconds_per_call(
        [&] { failed += ddp_all_reduce(handle, value.data(), 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, nullptr); }));
    // This call costs only the lookup in the table of handles.
    std::int32_t rank = 0;
    of_arguments.push_back(nanoseconds_per_call([&] { failed += ddp_group_rank(handle, &rank); }));
  }
  if (group.rank() == 0) {
    std::printf("{\"ranks\": %d, ", group.size());
    print("all_reduce_cpp", in_cpp, ", ");
    print("all_reduce_c", in_c, ", ");
    print("group_rank_c", of_arguments, "}\n");
  }
  return failed == 0 && ddp_group_destroy(handle) == DDP_OK ? 0 : 1;
}
