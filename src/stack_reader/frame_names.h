// FrameNames names addresses in processes, from the files that they have mapped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stack_reader/process_files.h"

namespace ddp::stack_reader {

class FrameNames {
 public:
  // Returns "FUNCTION (FILE+0xADDRESS)". The address is one within the file, as addr2line takes it, or an offset from
  // its mapping if the file cannot be read. Without a function it returns "?? (FILE+0xADDRESS)", and without a file "??
  // (0xADDRESS)". A return address stands for the call before it.
  std::string name(const ProcessFiles& files, std::uint64_t address, bool is_return_address);

  // Returns a frame "FUNCTION (train.cpp:42)" for each function that the compiler has inlined there, innermost first,
  // and for the function itself. Returns the same as name() if the file has no debug information.
  std::vector<std::string> with_lines(const ProcessFiles& files, std::uint64_t address, bool is_return_address);

 private:
  struct Place;

  static Place find(const ProcessFiles& files, std::uint64_t address, bool is_return_address);
  const std::string& function(const Place& place);
  std::string without_line(const Place& place);

  // This caches names, because ranks are mostly in the same functions, and libdw reads all symbols of a file for each.
  std::map<std::pair<std::string, std::uint64_t>, std::string> functions_;
};

}  // namespace ddp::stack_reader
