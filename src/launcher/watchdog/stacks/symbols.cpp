#include "launcher/watchdog/stacks/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>

#include "base/text.h"
#include "launcher/watchdog/stacks/function_name.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostNameBytes = 4096;      // a longer name is not demangled
constexpr std::uint64_t kMostSections = 1 << 16;  // of which larger files have made do with some fifty
constexpr std::size_t kAliases = 8;               // of one address, from which a name is chosen
constexpr std::size_t kEnclosing = 16;            // symbols before an address that may contain it

// The text before the next `separator`, which are both taken from the front of `text`.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// "7f6253a45000-7f6253b9b000 r-xp 00026000 fe:00 339380                     /usr/lib/libc.so.6"
std::optional<MappedFile> parse_mapping(std::string_view line) {
  MappedFile mapping;
  const auto begin = base::parse_hex(take(line, '-'));
  const auto end = base::parse_hex(take(line, ' '));
  const std::string_view rights = take(line, ' ');
  const auto offset = base::parse_hex(take(line, ' '));
  take(line, ' ');  // device
  take(line, ' ');  // inode
  if (!begin || !end || !offset || *begin >= *end || rights.size() != 4 || rights[2] != 'x') return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with('/') && line != "[vdso]") return std::nullopt;
  constexpr std::string_view kDeleted = " (deleted)";
  mapping = {*begin, *end, *offset, std::string(line), line.ends_with(kDeleted)};
  if (mapping.is_deleted) mapping.path.resize(mapping.path.size() - kDeleted.size());
  // The only character that the kernel writes otherwise.
  constexpr std::string_view kNewline = "\\012";
  for (std::size_t at = 0; (at = mapping.path.find(kNewline, at)) != std::string::npos; ++at) {
    mapping.path.replace(at, kNewline.size(), 1, '\n');
  }
  return mapping;
}

std::string to_hex(std::uint64_t value) {
  std::array<char, 2 + 16> digits = {'0', 'x'};
  return {digits.data(), std::to_chars(digits.data() + 2, digits.data() + digits.size(), value, 16).ptr};
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z") || name.size() >= kMostNameBytes) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

bool is_function(const Elf64_Sym& symbol) {
  const int type = ELF64_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
}

struct File {
  int fd;
  std::uint64_t size;

  bool has(std::uint64_t offset, std::uint64_t bytes) const { return offset <= size && bytes <= size - offset; }
};

bool read_bytes(const File& file, std::uint64_t offset, void* into, std::size_t size) {
  if (!file.has(offset, size)) return false;
  auto* bytes = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::pread(file.fd, bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;  // the file has become shorter
    bytes += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Empty if any of it is not there. The caller bounds `count`.
template <typename T>
std::vector<T> read_table(const File& file, std::uint64_t offset, std::uint64_t count) {
  if (!file.has(offset, count * sizeof(T))) return {};
  std::vector<T> table(static_cast<std::size_t>(count));
  if (!read_bytes(file, offset, table.data(), table.size() * sizeof(T))) return {};
  return table;
}

std::vector<Elf64_Phdr> read_segments(const File& file, const Elf64_Ehdr& header) {
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return {};
  return read_table<Elf64_Phdr>(file, header.e_phoff, header.e_phnum);
}

std::vector<Elf64_Shdr> read_sections(const File& file, const Elf64_Ehdr& header) {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff == 0) return {};
  std::uint64_t count = header.e_shnum;
  if (Elf64_Shdr first{}; count == 0) {  // they are more than e_shnum can count
    if (!read_bytes(file, header.e_shoff, &first, sizeof(first))) return {};
    count = first.sh_size;
  }
  if (count > kMostSections) return {};
  return read_table<Elf64_Shdr>(file, header.e_shoff, count);
}

bool is_readable_elf(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == ELFDATA2LSB && std::endian::native == std::endian::little &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

}  // namespace

std::vector<MappedFile> parse_maps(std::string_view text) {
  std::vector<MappedFile> mappings;
  while (!text.empty()) {
    if (auto mapping = parse_mapping(take(text, '\n'))) mappings.push_back(std::move(*mapping));
  }
  std::ranges::stable_sort(mappings, {}, &MappedFile::begin);
  return mappings;
}

std::optional<ElfSymbols> ElfSymbols::open(const std::string& path) {
  ElfSymbols elf;
  elf.file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!elf.file_ || ::fstat(elf.file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  elf.file_size_ = static_cast<std::uint64_t>(status.st_size);
  const File file{elf.file_.get(), elf.file_size_};
  Elf64_Ehdr header{};
  if (!read_bytes(file, 0, &header, sizeof(header)) || !is_readable_elf(header)) return std::nullopt;
  for (const Elf64_Phdr& segment : read_segments(file, header)) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    elf.segments_.push_back({segment.p_offset, segment.p_filesz, segment.p_vaddr});
  }
  const auto sections = read_sections(file, header);
  for (const Elf64_Word type : {Elf64_Word{SHT_SYMTAB}, Elf64_Word{SHT_DYNSYM}}) {
    for (const Elf64_Shdr& table : sections) {
      if (table.sh_type != type || table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections.size()) continue;
      const Elf64_Shdr& names = sections[table.sh_link];
      if (names.sh_type != SHT_STRTAB) continue;
      if (elf.read_symbols({table.sh_offset, table.sh_size}, {names.sh_offset, names.sh_size})) return elf;
    }
  }
  return elf;
}

bool ElfSymbols::read_symbols(Range table, Range names) {
  const File file{file_.get(), file_size_};
  symbols_.clear();
  if (table.size > kSymbolTableBytes || !file.has(table.offset, table.size) || !file.has(names.offset, names.size)) {
    return false;
  }
  constexpr std::uint64_t kAtOnce = 16'384;
  const std::uint64_t count = table.size / sizeof(Elf64_Sym);
  for (std::uint64_t done = 0; done < count; done += kAtOnce) {
    const auto part =
        read_table<Elf64_Sym>(file, table.offset + done * sizeof(Elf64_Sym), std::min(kAtOnce, count - done));
    for (const Elf64_Sym& symbol : part) {
      if (!is_function(symbol) || symbol.st_name >= names.size) continue;
      constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
      const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(symbol.st_size, kLargest));
      symbols_.push_back({symbol.st_value, size, symbol.st_name});
    }
  }
  std::ranges::sort(symbols_, {}, &Symbol::address);
  symbols_.shrink_to_fit();
  names_ = names;
  return !symbols_.empty();
}

std::optional<std::uint64_t> ElfSymbols::address_of(std::uint64_t file_offset) const {
  for (const Segment& segment : segments_) {
    if (file_offset >= segment.offset && file_offset - segment.offset < segment.size) {
      return file_offset - segment.offset + segment.address;
    }
  }
  return std::nullopt;
}

std::string ElfSymbols::name_at(std::uint32_t name) const {
  std::array<char, kMostNameBytes> bytes{};
  const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), names_.size - name));
  if (!read_bytes({file_.get(), file_size_}, names_.offset + name, bytes.data(), size)) return "";
  const std::string text(bytes.data(), ::strnlen(bytes.data(), size));
  return text.substr(0, text.find('@'));  // "poll@@GLIBC_2.2.5"
}

// Of several names of one function the one that people call it by: "poll" rather than "__poll".
std::string ElfSymbols::best_name(const Symbol& symbol) const {
  const auto is_better = [](const std::string& one, const std::string& other) {
    const auto underscores = [](const std::string& name) { return std::min(name.find_first_not_of('_'), name.size()); };
    return std::tuple(one.empty(), underscores(one), one.size(), one) <
           std::tuple(other.empty(), underscores(other), other.size(), other);
  };
  auto alias = std::ranges::lower_bound(symbols_, symbol.address, {}, &Symbol::address);
  std::string best;
  for (std::size_t i = 0; i < kAliases && alias != symbols_.end() && alias->address == symbol.address; ++i, ++alias) {
    if (std::string name = name_at(alias->name); is_better(name, best)) best = std::move(name);
  }
  return best;
}

std::optional<ElfSymbols::Found> ElfSymbols::at(std::uint64_t file_offset) const {
  const auto address = address_of(file_offset);
  if (!address) return std::nullopt;
  const auto behind = std::ranges::upper_bound(symbols_, *address, {}, &Symbol::address);
  const auto before = static_cast<std::size_t>(behind - symbols_.begin());
  const Symbol* found = nullptr;
  // One whose size is known counts more than one, such as of assembly, that may have ended long before.
  for (std::size_t i = 1; i <= std::min(before, kEnclosing); ++i) {
    const Symbol& symbol = symbols_[before - i];
    if (*address - symbol.address < symbol.size) {
      found = &symbol;
      break;
    }
    if (symbol.size == 0 && symbol.address == symbols_[before - 1].address) found = &symbol;
  }
  if (found == nullptr) return std::nullopt;
  std::string name = best_name(*found);
  if (name.empty()) return std::nullopt;
  return Found{demangled(name), *address - found->address};
}

const ElfSymbols* SymbolFiles::find(const std::string& path) {
  auto known = files_.find(path);
  if (known == files_.end()) {
    if (files_.size() >= kSymbolFiles || symbols_ >= kSymbolsInMemory) return nullptr;
    known = files_.emplace(path, ElfSymbols::open(path)).first;
    if (known->second) symbols_ += known->second->count();
  }
  return known->second ? &*known->second : nullptr;
}

std::string Symbolizer::describe(std::uint64_t address, bool is_return_address, std::string_view source_line) {
  const std::uint64_t place = is_return_address && address > 0 ? address - 1 : address;
  const auto behind = std::ranges::upper_bound(mappings_, place, {}, &MappedFile::begin);
  if (behind == mappings_.begin() || place >= std::prev(behind)->end) return "?? (" + to_hex(address) + ")";
  const MappedFile& mapping = *std::prev(behind);
  const std::uint64_t offset = place - mapping.begin + mapping.offset;
  const bool is_there = mapping.path.starts_with('/') && !mapping.is_deleted;
  const ElfSymbols* elf = is_there ? files_.find(mapping.path) : nullptr;
  const auto found = elf == nullptr ? std::nullopt : elf->at(offset);
  const std::uint64_t shown = elf == nullptr ? offset : elf->address_of(offset).value_or(offset);
  const std::string function = found ? short_function_name(found->name) : "??";
  if (!source_line.empty()) return function + " (" + frame_text(source_line) + ")";
  const std::string file = frame_text(std::string_view(mapping.path).substr(mapping.path.rfind('/') + 1));
  return function + " (" + file + "+" + to_hex(shown) + ")";
}

}  // namespace ddp::launcher
