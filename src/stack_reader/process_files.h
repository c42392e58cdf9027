// ProcessFiles: the files that a process has mapped, as elfutils' libdw sees them.
#pragma once

#include <cstdint>
#include <string>

struct Dwfl;
struct Dwfl_Module;

namespace ddp::stack_reader {

class ProcessFiles {
 public:
  // `maps`: the text of /proc/PID/maps. The files are opened when they are needed, and may hang. Debug information is
  // taken from the files themselves only: files elsewhere may be behind a network.
  explicit ProcessFiles(const std::string& maps);
  ~ProcessFiles();
  ProcessFiles(const ProcessFiles&) = delete;
  ProcessFiles& operator=(const ProcessFiles&) = delete;

  // A null pointer if there is no memory for it.
  Dwfl* dwfl() const { return dwfl_; }
  // A null pointer if no file is mapped at the address.
  Dwfl_Module* module_at(std::uint64_t address) const;

 private:
  Dwfl* dwfl_;
};

}  // namespace ddp::stack_reader
