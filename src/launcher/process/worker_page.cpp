#include "launcher/process/worker_page.h"

#include <fcntl.h>
#include <unistd.h>

namespace ddp::launcher {

WorkerPage::WorkerPage(int rank, int local_rank, int attempt) {
  base::UniqueFd memory(::memfd_create("ddp-board", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), sizeof(wire::StatusPageLayout)) != 0) return;
  // A worker that shrinks it would kill us by SIGBUS.
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* mapped = ::mmap(nullptr, sizeof(wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return;
  descriptor_ = std::move(memory);
  page_.reset(static_cast<wire::StatusPageLayout*>(mapped));  // zeros, which is what the worker's part must be
  page_->magic = wire::kPageMagic;
  page_->version = wire::kPageVersion;
  page_->bytes = sizeof(wire::StatusPageLayout);
  page_->rank = rank;
  page_->local_rank = local_rank;
  page_->attempt = attempt;
  page_->lost_rank = wire::kNoRankLost;
}

void WorkerPage::request_stacks() const {
  if (page_ == nullptr) return;
  page_->stacks.taken = 0;
  ++page_->stacks.request;
}

void WorkerPage::mark_peer_lost(int rank) const {
  std::int32_t none = wire::kNoRankLost;
  if (page_ != nullptr) page_->lost_rank.compare_exchange_strong(none, rank);
}

}  // namespace ddp::launcher
