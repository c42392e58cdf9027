#include "launcher/watchdog/stacks/symbols.h"

#include <catch2/catch.hpp>
#include <elf.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/unique_fd.h"

using namespace ddp::launcher;

extern "C" __attribute__((noinline)) const void* ddp_test_return_address() {
  return __builtin_return_address(0);
}

namespace ddp_test {

struct Model {};

__attribute__((noinline)) const void* train_epoch(const Model&, int) {
  const void* volatile place = ddp_test_return_address();
  return place;
}

}  // namespace ddp_test

namespace {

template <typename T>
std::uint64_t address_of(T* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

// A file without a name in any folder.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(::memfd_create("elf", MFD_CLOEXEC)) { write(0, bytes); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }
  void write(std::size_t offset, const std::string& bytes) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    REQUIRE(written == static_cast<ssize_t>(bytes.size()));
  }
  void truncate(std::size_t size) { REQUIRE(::ftruncate(file_.get(), static_cast<off_t>(size)) == 0); }

 private:
  ddp::base::UniqueFd file_;
};

Elf64_Sym symbol(std::uint32_t name, std::uint64_t address, std::uint64_t size, unsigned type = STT_FUNC,
                 std::uint16_t section = 1) {
  Elf64_Sym result{};
  result.st_name = name;
  result.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
  result.st_shndx = section;
  result.st_value = address;
  result.st_size = size;
  return result;
}

// A shared library of one segment with code: bytes [0x100, 0x1100) of the file, at 0x2100 of its addresses.
struct SmallElf {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  std::vector<Elf64_Shdr> sections = std::vector<Elf64_Shdr>(3);  // none, symbols, names
  std::string names = std::string("\0train\0__poll\0poll\0_ZN3ddp4Work4waitEi\0value\0hand_written\0ifunc@@V_1\0", 69);
  std::vector<Elf64_Sym> symbols = {symbol(0, 0, 0),
                                    symbol(39, 0x2300, 8, STT_OBJECT),  // "value"
                                    symbol(1, 0x2200, 0x40),            // "train"
                                    symbol(7, 0x2240, 0x10),            // "__poll"
                                    symbol(14, 0x2240, 0x10),           // "poll"
                                    symbol(19, 0x2400, 0x80),           // "_ZN3ddp4Work4waitEi"
                                    symbol(45, 0x2440, 0),              // "hand_written"
                                    symbol(58, 0x2500, 0x10, STT_GNU_IFUNC),
                                    symbol(1, 0x2600, 0x10, STT_FUNC, SHN_UNDEF)};

  SmallElf() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_phoff = sizeof(header);
    header.e_phnum = 1;
    header.e_phentsize = sizeof(segment);
    header.e_shoff = sizeof(header) + sizeof(segment);
    header.e_shnum = static_cast<std::uint16_t>(sections.size());
    header.e_shentsize = sizeof(Elf64_Shdr);
    segment.p_type = PT_LOAD;
    segment.p_flags = PF_R | PF_X;
    segment.p_offset = 0x100;
    segment.p_filesz = 0x1000;
    segment.p_vaddr = 0x2100;
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_entsize = sizeof(Elf64_Sym);
    sections[1].sh_offset = 0x200;
    sections[1].sh_size = symbols.size() * sizeof(Elf64_Sym);
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = 0x1000;
    sections[2].sh_size = names.size();
  }

  std::string bytes() const {
    std::string file(0x1100, '\0');
    std::memcpy(file.data(), &header, sizeof(header));
    std::memcpy(file.data() + sizeof(header), &segment, sizeof(segment));
    std::memcpy(file.data() + sizeof(header) + sizeof(segment), sections.data(), sections.size() * sizeof(Elf64_Shdr));
    std::memcpy(file.data() + 0x200, symbols.data(), symbols.size() * sizeof(Elf64_Sym));
    std::memcpy(file.data() + 0x1000, names.data(), names.size());
    return file;
  }
};

using Found = ElfSymbols::Found;

// Looks everywhere; what it finds does not matter, only that it comes back.
void look_around(const std::string& path) {
  const auto elf = ElfSymbols::open(path);
  if (!elf) return;
  for (std::uint64_t offset : {0x0ull, 0x100ull, 0x200ull, 0x210ull, 0x245ull, 0x341ull, 0x505ull, 0x27000ull, ~0ull}) {
    elf->at(offset);
  }
}

}  // namespace

TEST_CASE("the mappings of code") {
  const std::string maps =
      "55e22fedd000-55e22fede000 r--p 00000000 fe:00 2244868                    /home/u/train\n"
      "55e22fede000-55e22fedf000 r-xp 00001000 fe:00 2244868                    /home/u/train\n"
      "7f6253a45000-7f6253b9b000 r-xp 00026000 fe:00 339380                     /opt/my libs/a  b.so (1)\n"
      "7f6253c00000-7f6253c01000 r-xp 00000000 fe:00 339381                     /opt/old.so (deleted)\n"
      "7f6253c01000-7f6253c02000 r-xp 00000000 fe:00 339382                     /opt/new\\012line.so\n"
      "7f6253d00000-7f6253d01000 rwxp 00000000 00:00 0 \n"
      "7f8defee0000-7f8defee1000 rwxs 00000000 00:01 3                          /memfd:jit (deleted)\n"
      "7fa8df0ea000-7fa8df0ec000 r--p 00000000 00:00 0                          [vvar]\n"
      "7fa8df0ec000-7fa8df0ee000 r-xp 00000000 00:00 0                          [vdso]\n"
      "7fff6f761000-7fff6f782000 rwxp 00000000 00:00 0                          [stack]\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
  const std::vector<MappedFile> expected = {
      {0x55e22fede000, 0x55e22fedf000, 0x1000, "/home/u/train", false},
      {0x7f6253a45000, 0x7f6253b9b000, 0x26000, "/opt/my libs/a  b.so (1)", false},
      {0x7f6253c00000, 0x7f6253c01000, 0, "/opt/old.so", true},
      {0x7f6253c01000, 0x7f6253c02000, 0, "/opt/new\nline.so", false},
      {0x7f8defee0000, 0x7f8defee1000, 0, "/memfd:jit", true},
      {0x7fa8df0ec000, 0x7fa8df0ee000, 0, "[vdso]", false},
  };
  CHECK(parse_maps(maps) == expected);
}

TEST_CASE("lines that are no mappings are left out") {
  for (const char* text : {"", "\n\n", "7f00", "7f00-7f10", "7f00-7f10 r-xp", "7f10-7f00 r-xp 00000000 fe:00 1 /a",
                           "7f00-7f10 r-x 00000000 fe:00 1 /a", "7f00-7f10 r-xp 0000000g fe:00 1 /a",
                           "-7f10 r-xp 00000000 fe:00 1 /a", "11112222333344445-7f10 r-xp 00000000 fe:00 1 /a",
                           "7f00-7f10 r-xp 00000000 fe:00 1 a", "7f00-7f10 r-xp 0 0 0"}) {
    CHECK(parse_maps(text).empty());
  }
  CHECK(parse_maps("x\n7f00-7f10 r-xp 00000000 fe:00 1 /a").size() == 1);
}

TEST_CASE("functions of a file by their offsets in it") {
  const MemoryFile file(SmallElf().bytes());
  const auto elf = ElfSymbols::open(file.path());
  REQUIRE(elf);
  CHECK(elf->count() == 6);
  CHECK(elf->address_of(0x100) == 0x2100);
  CHECK(elf->address_of(0x10ff) == 0x30ff);
  CHECK_FALSE(elf->address_of(0xff));
  CHECK_FALSE(elf->address_of(0x1100));
  CHECK_FALSE(elf->at(0x1ff));
  CHECK(elf->at(0x200) == Found{"train", 0});
  CHECK(elf->at(0x23f) == Found{"train", 0x3f});
  CHECK(elf->at(0x240) == Found{"poll", 0});  // of two names the plain one
  CHECK_FALSE(elf->at(0x250));                // behind its end
  CHECK_FALSE(elf->at(0x300));                // a variable
  CHECK(elf->at(0x400) == Found{"ddp::Work::wait(int)", 0});
  CHECK(elf->at(0x441) == Found{"ddp::Work::wait(int)", 0x41});  // a label within it
  CHECK(elf->at(0x490) == Found{"hand_written", 0x50});          // whose size nobody knows
  CHECK(elf->at(0x500) == Found{"ifunc", 0});
  CHECK_FALSE(elf->at(0x600));
}

TEST_CASE("a stripped file has the symbols of .dynsym") {
  SmallElf small;
  small.sections[1].sh_type = SHT_DYNSYM;
  const MemoryFile file(small.bytes());
  CHECK(ElfSymbols::open(file.path())->at(0x201) == Found{"train", 1});
}

TEST_CASE("a file whose symbols cannot be used still has addresses") {
  std::vector<SmallElf> broken(11);
  broken[0].sections[1].sh_type = SHT_PROGBITS;
  broken[1].sections[1].sh_entsize = 0;
  broken[2].sections[1].sh_link = 3;
  broken[3].sections[1].sh_link = 1;
  broken[4].sections[1].sh_size = kSymbolTableBytes + sizeof(Elf64_Sym);
  broken[5].sections[1].sh_offset = ~std::uint64_t{0} - 8;
  broken[6].sections[2].sh_size = 0;
  broken[7].sections[2].sh_offset = ~std::uint64_t{0};
  broken[8].header.e_shoff = 0x10f0;
  broken[9].header.e_shentsize = 1;
  broken[10].header.e_shnum = 0;  // so that the first section's size, 0, is the number
  for (const SmallElf& small : broken) {
    const MemoryFile file(small.bytes());
    const auto elf = ElfSymbols::open(file.path());
    REQUIRE(elf);
    CHECK(elf->count() == 0);
    CHECK_FALSE(elf->at(0x200));
    CHECK(elf->address_of(0x200) == 0x2200);
  }
}

TEST_CASE("more sections than the header can count") {
  SmallElf small;
  small.header.e_shnum = 0;
  small.sections[0].sh_size = 3;
  CHECK(ElfSymbols::open(MemoryFile(small.bytes()).path())->count() == 6);
  small.sections[0].sh_size = std::uint64_t{1} << 60;
  CHECK(ElfSymbols::open(MemoryFile(small.bytes()).path())->count() == 0);
}

TEST_CASE("a name that never ends, and one beyond the table") {
  SmallElf small;
  small.sections[2].sh_size = 5;  // "\0trai"
  const MemoryFile file(small.bytes());
  const auto elf = ElfSymbols::open(file.path());
  REQUIRE(elf);
  CHECK(elf->count() == 1);
  CHECK(elf->at(0x200) == Found{"trai", 0});
}

TEST_CASE("what is no such file is nothing") {
  CHECK_FALSE(ElfSymbols::open("/there/is/no/such/file"));
  CHECK_FALSE(ElfSymbols::open("/proc/self"));
  CHECK_FALSE(ElfSymbols::open("/dev/zero"));
  CHECK_FALSE(ElfSymbols::open(MemoryFile("").path()));
  CHECK_FALSE(ElfSymbols::open(MemoryFile("#!/bin/sh\n" + std::string(1000, ' ')).path()));
  std::vector<SmallElf> others(3);
  others[0].header.e_ident[EI_CLASS] = ELFCLASS32;
  others[1].header.e_ident[EI_DATA] = ELFDATA2MSB;
  others[2].header.e_type = ET_REL;
  for (const SmallElf& other : others) CHECK_FALSE(ElfSymbols::open(MemoryFile(other.bytes()).path()));
}

TEST_CASE("a file that is cut off anywhere") {
  const std::string bytes = SmallElf().bytes();
  MemoryFile file(bytes);
  for (std::size_t size = bytes.size(); size > 0; size -= std::min<std::size_t>(size, 7)) {
    file.truncate(size);
    look_around(file.path());
  }
  // And while it is in use.
  MemoryFile used(bytes);
  const auto elf = ElfSymbols::open(used.path());
  REQUIRE(elf->at(0x200));
  used.truncate(0x800);
  CHECK_FALSE(elf->at(0x200));
}

TEST_CASE("a file with any bytes changed") {
  std::mt19937 random(4711);
  const std::string bytes = SmallElf().bytes();
  MemoryFile file(bytes);
  for (int i = 0; i < 5000; ++i) {
    std::string changed = bytes;
    for (std::size_t flips = 1 + random() % 8; flips > 0; --flips) {
      // In the headers or the symbols, which is where it matters.
      changed[random() % 0x300] = static_cast<char>(random() % 3 == 0 ? 0xff : random() % 256);
    }
    file.write(0, changed);
    look_around(file.path());
  }
}

TEST_CASE("a real library with bytes changed") {
  std::string path;
  for (const MappedFile& mapping : parse_maps(ddp::base::read_file("/proc/self/maps"))) {
    const std::uint64_t inside = address_of(&::gnu_get_libc_version);
    if (inside >= mapping.begin && inside < mapping.end) path = mapping.path;
  }
  const std::string bytes = ddp::base::read_file(path);
  REQUIRE(bytes.size() > sizeof(Elf64_Ehdr));
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  MemoryFile file(bytes);
  std::mt19937 random(4711);
  for (int i = 0; i < 200; ++i) {
    const std::size_t begins[] = {0, sizeof(header), static_cast<std::size_t>(header.e_shoff) % bytes.size()};
    const std::size_t begin = begins[static_cast<std::size_t>(i) % 3];
    const std::size_t place = begin + random() % std::min<std::size_t>(bytes.size() - begin, 0x800);
    file.write(place, std::string(1, static_cast<char>(random() % 256)));
    look_around(file.path());
    if (i % 4 == 3) file.write(0, bytes.substr(0, 0x1000));
  }
  file.truncate(bytes.size() / 2);
  look_around(file.path());
}

TEST_CASE("the addresses of a process have names") {
  SymbolFiles files;
  Symbolizer symbolizer(ddp::base::read_file("/proc/self/maps"), files);
  const auto call = reinterpret_cast<std::uint64_t>(ddp_test::train_epoch({}, 1));
  CHECK_THAT(symbolizer.describe(call, true),
             Catch::StartsWith("ddp_test::train_epoch(ddp_test::Model const&, int) ("));
  const std::uint64_t function = address_of(&ddp_test_return_address);
  const std::string text = symbolizer.describe(function, false);
  CHECK_THAT(text, Catch::Matches("ddp_test_return_address \\([^/]+\\+0x[0-9a-f]+\\)"));
  CHECK_THAT(symbolizer.describe(address_of(&::gnu_get_libc_version), false),
             Catch::Matches("gnu_get_libc_version \\(libc[^/]*\\+0x[0-9a-f]+\\)"));
  // A return address may be the first one behind a function that does not return.
  CHECK_THAT(symbolizer.describe(function, true), !Catch::StartsWith("ddp_test_return_address "));
  CHECK(symbolizer.describe(0x1000, true) == "?? (0x1000)");
  CHECK(symbolizer.describe(0, true) == "?? (0x0)");
  CHECK(symbolizer.describe(~std::uint64_t{0}, false) == "?? (0xffffffffffffffff)");
}

TEST_CASE("places in files that have no names") {
  SymbolFiles files;
  const MemoryFile file(SmallElf().bytes());
  Symbolizer symbolizer(
      "100000-101000 r-xp 00000000 fe:00 1 /opt/there/is/no\x1b[31m.so\n"
      "101000-102000 r-xp 00001000 fe:00 1 " +
          file.path() +
          " (deleted)\n"
          "200000-201000 r-xp 00000000 fe:00 1 " +
          file.path() +
          "\n"
          "300000-302000 r-xp 00000000 00:00 0 [vdso]\n",
      files);
  const std::string name = file.path().substr(file.path().rfind('/') + 1);
  CHECK(symbolizer.describe(0x100123, false) == "?? (no\\x1b[31m.so+0x123)");
  CHECK(symbolizer.describe(0x101200, false) == "?? (" + name + "+0x1200)");  // not what has that path now
  CHECK(symbolizer.describe(0x200211, true) == "train (" + name + "+0x2210)");
  CHECK(symbolizer.describe(0x200300, false) == "?? (" + name + "+0x2300)");
  CHECK(symbolizer.describe(0x200010, false) == "?? (" + name + "+0x10)");
  CHECK(symbolizer.describe(0x300123, false) == "?? ([vdso]+0x123)");
  CHECK(symbolizer.describe(0x201000, false) == "?? (0x201000)");
  CHECK(symbolizer.describe(0x201000, true) == "?? (" + name + "+0x2fff)");
}

TEST_CASE("a file is read once, and not too many are") {
  SymbolFiles files;
  const MemoryFile file(SmallElf().bytes());
  const ElfSymbols* first = files.find(file.path());
  REQUIRE(first != nullptr);
  CHECK(files.find(file.path()) == first);
  CHECK(files.find("/there/is/no/such/file") == nullptr);
  const MemoryFile last(SmallElf().bytes());
  for (std::size_t i = 0; i < kSymbolFiles; ++i) files.find("/there/is/no/such/file" + std::to_string(i));
  CHECK(files.find(last.path()) == nullptr);
  CHECK(files.find(file.path()) == first);
}
