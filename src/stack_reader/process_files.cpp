#include "stack_reader/process_files.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"

namespace ddp::stack_reader {
namespace {

// Opens only an existing regular file of this name, because opening other files might have side effects.
int find_elf(Dwfl_Module* /*module*/, void** /*userdata*/, const char* name, Dwarf_Addr /*base*/, char** file_name,
             Elf** /*elf*/) {
  if (name[0] != '/') return -1;
  base::UniqueFd file(::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return -1;
  *file_name = ::strdup(name);  // libdw frees it
  return file.release();
}

// Finds no separate debug information: files elsewhere may be on a network file system.
int find_no_debuginfo(Dwfl_Module* /*module*/, void** /*userdata*/, const char* /*name*/, Dwarf_Addr /*base*/,
                      const char* /*file_name*/, const char* /*link*/, GElf_Word /*crc*/, char** /*found*/) {
  return -1;
}

constexpr Dwfl_Callbacks kFiles = {
    .find_elf = find_elf, .find_debuginfo = find_no_debuginfo, .section_address = nullptr, .debuginfo_path = nullptr};

}  // namespace

ProcessFiles::ProcessFiles(const std::string& maps) : dwfl_(::dwfl_begin(&kFiles)) {
  if (dwfl_ == nullptr) return;
  std::string text = maps;
  if (std::FILE* file = ::fmemopen(text.data(), text.size(), "r")) {
    ::dwfl_linux_proc_maps_report(dwfl_, file);
    std::fclose(file);
  }
  ::dwfl_report_end(dwfl_, nullptr, nullptr);
}

ProcessFiles::~ProcessFiles() {
  if (dwfl_ != nullptr) ::dwfl_end(dwfl_);
}

Dwfl_Module* ProcessFiles::module_at(std::uint64_t address) const {
  return dwfl_ == nullptr ? nullptr : ::dwfl_addrmodule(dwfl_, address);
}

}  // namespace ddp::stack_reader
