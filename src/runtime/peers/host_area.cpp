#include "runtime/peers/host_area.h"

#include "runtime/peers/futex.h"
#include "runtime/progress/board.h"

namespace ddp::internal {

void raise_counter(SharedCounter& counter, std::uint32_t value) {
  counter.value.store(value, std::memory_order_seq_cst);
  if (counter.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(counter.value);
  count_handed_on();
}

}  // namespace ddp::internal
