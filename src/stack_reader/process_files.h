// ProcessFiles gives access to the files that a process has mapped, through elfutils' libdw.
#pragma once

#include <cstdint>
#include <string>

struct Dwfl;
struct Dwfl_Module;

namespace ddp::stack_reader {

class ProcessFiles {
 public:
  // `maps` is the text of /proc/PID/maps. The files are opened when they are needed, which may hang. Debug information
  // comes only from the files themselves, because files elsewhere may be on a network file system.
  explicit ProcessFiles(const std::string& maps);
  ~ProcessFiles();
  ProcessFiles(const ProcessFiles&) = delete;
  ProcessFiles& operator=(const ProcessFiles&) = delete;

  // Returns null if there is no memory for it.
  Dwfl* dwfl() const { return dwfl_; }
  // Returns null if no file is mapped at the address.
  Dwfl_Module* module_at(std::uint64_t address) const;

 private:
  Dwfl* dwfl_;
};

}  // namespace ddp::stack_reader
