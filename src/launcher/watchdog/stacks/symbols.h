// From addresses in a process to names of functions: its /proc/PID/maps, and the ELF files that it names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace ddp::launcher {

// Code that a process has mapped: [begin, end) is the file's bytes from `offset` on.
struct MappedFile {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  std::string path;         // or "[vdso]"
  bool is_deleted = false;  // what has this path now, if anything, is another file

  friend bool operator==(const MappedFile&, const MappedFile&) = default;
};

// The text of /proc/PID/maps: executable mappings of files, and the vdso, in ascending order. Other lines, and those
// that are not understood, are left out.
std::vector<MappedFile> parse_maps(std::string_view text);

// The functions of one ELF file of 64 bits, little-endian: those of .symtab or, if it has been stripped, of .dynsym.
// Nothing in the file is trusted. Its names stay there: each is read when it is asked for.
class ElfSymbols {
 public:
  struct Found {
    std::string name;  // demangled
    std::uint64_t offset_in_function = 0;

    friend bool operator==(const Found&, const Found&) = default;
  };

  // Nothing if there is no such file, or it is not of this kind. A symbol table that cannot be, or is larger than
  // kSymbolTableBytes, counts as none.
  static std::optional<ElfSymbols> open(const std::string& path);

  // The function that the byte at `file_offset` belongs to.
  std::optional<Found> at(std::uint64_t file_offset) const;

  // Where the byte at `file_offset` is among the file's own addresses, which are those that addr2line takes.
  std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;

  std::size_t count() const { return symbols_.size(); }

 private:
  struct Segment {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t address;
  };
  struct Symbol {
    std::uint64_t address;
    std::uint32_t size;  // or 0: not known
    std::uint32_t name;  // where it begins in the string table
  };

  struct Range {  // of the file's bytes
    std::uint64_t offset;
    std::uint64_t size;
  };

  bool read_symbols(Range table, Range names);
  std::string name_at(std::uint32_t name) const;
  std::string best_name(const Symbol& symbol) const;

  base::UniqueFd file_;
  std::uint64_t file_size_ = 0;
  Range names_{};
  std::vector<Segment> segments_;
  std::vector<Symbol> symbols_;  // by address
};

inline constexpr std::uint64_t kSymbolTableBytes = std::uint64_t{256} << 20;
inline constexpr std::size_t kSymbolFiles = 128;                        // that one SymbolFiles opens …
inline constexpr std::size_t kSymbolsInMemory = std::size_t{16} << 20;  // … until they have so many functions, of 16 B

// The files that have been read, once for all processes that have mapped them.
class SymbolFiles {
 public:
  // Null if the file cannot be read, or too much has been.
  const ElfSymbols* find(const std::string& path);

 private:
  std::map<std::string, std::optional<ElfSymbols>> files_;
  std::size_t symbols_ = 0;
};

// Names the addresses of one process.
//   SymbolFiles files;
//   Symbolizer symbolizer(base::read_file("/proc/4711/maps"), files);
//   symbolizer.describe(0x55e22fede36e, true);  // "train_epoch(Model&) (train+0x136d)"
// It reads files, which takes time: some 100 ms for a million functions, for ever on a file system that hangs.
class Symbolizer {
 public:
  // `files` must outlive it.
  Symbolizer(std::string_view maps, SymbolFiles& files) : mappings_(parse_maps(maps)), files_(files) {}

  // "FUNCTION (FILE+0xADDRESS)", where the address is one of the file as addr2line takes it (or, of a file that cannot
  // be read, an offset); without a function "?? (FILE+0xADDRESS)", without a file "?? (0xADDRESS)". What a return
  // address stands for is the call before it. With a line of the source: "FUNCTION (train.cpp:42)".
  std::string describe(std::uint64_t address, bool is_return_address, std::string_view source_line = "");

 private:
  std::vector<MappedFile> mappings_;
  SymbolFiles& files_;
};

}  // namespace ddp::launcher
