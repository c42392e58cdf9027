// Makes a status page as the launcher makes it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "runtime/progress/status_page.h"

namespace ddp::test {

struct MadePage {
  int descriptor = ::memfd_create("page", MFD_CLOEXEC);
  wire::StatusPageLayout* layout = nullptr;

  MadePage() {
    if (::ftruncate(descriptor, sizeof(wire::StatusPageLayout)) != 0) throw std::runtime_error("no memory");
    layout = static_cast<wire::StatusPageLayout*>(
        ::mmap(nullptr, sizeof(wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    layout->magic = wire::kPageMagic;
    layout->version = wire::kPageVersion;
    layout->lost_rank = wire::kNoRankLost;
  }
  ~MadePage() {
    ::munmap(layout, sizeof(wire::StatusPageLayout));
    ::close(descriptor);
  }
  MadePage(const MadePage&) = delete;
  MadePage& operator=(const MadePage&) = delete;

  // Maps the page as the worker does: it stays mapped until the process ends.
  internal::StatusPage map() const { return internal::StatusPage::map(std::to_string(descriptor).c_str()); }
};

}  // namespace ddp::test
