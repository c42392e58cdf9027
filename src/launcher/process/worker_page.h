// WorkerPage: the status page of one worker (wire/status_page_layout.h), on the launcher's side.
#pragma once

#include <sys/mman.h>

#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/process/page_view.h"
#include "launcher/process/rank_view.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {

class WorkerPage {
 public:
  // Empty where the system has no memory for it: then the worker goes without.
  WorkerPage() = default;
  WorkerPage(int rank, int local_rank, int attempt);

  // To be inherited; -1: none.
  int descriptor() const { return descriptor_.get(); }

  std::uint64_t version() const { return page_ == nullptr ? 1 : page_version(*page_); }
  PageView view() const { return page_ == nullptr ? PageView() : read_page(*page_); }
  std::vector<CallView> calls(int place) const {
    return page_ == nullptr ? std::vector<CallView>() : read_calls(*page_, place);
  }

  std::vector<Arrival> arrivals(int place) const {
    return page_ == nullptr ? std::vector<Arrival>() : read_arrivals(*page_, place);
  }

  // The signal that asks the worker for its stacks, and a new request for them; the answers to the latest one. 0: none.
  int stack_signal() const { return page_ == nullptr ? 0 : page_->stacks.signal.load(); }
  void request_stacks() const;
  std::vector<RawStack> stacks() const { return page_ == nullptr ? std::vector<RawStack>() : read_stacks(*page_); }

  // Tells the worker whose failure ends the job. The first one counts.
  void mark_peer_lost(int rank) const;

 private:
  struct Unmap {
    void operator()(wire::StatusPageLayout* page) const { ::munmap(page, sizeof *page); }
  };

  base::UniqueFd descriptor_;
  std::unique_ptr<wire::StatusPageLayout, Unmap> page_;
};

}  // namespace ddp::launcher
