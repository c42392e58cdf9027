#include "launcher/start/facts/program_facts.h"

#include <elf.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

class Folder {
 public:
  std::string file(const std::string& name, const std::string& text, int mode = 0755) {
    const std::string path = directory_.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), static_cast<mode_t>(mode));
    return path;
  }
  std::string path(const std::string& name = "") const { return directory_.path() + "/" + name; }

 private:
  TemporaryDirectory directory_;
};

// Returns a 64-bit little-endian program for `machine`, with a dynamic loader unless `loader` is empty.
std::string elf(int machine, const std::string& loader) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = static_cast<Elf64_Half>(machine);
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = loader.empty() ? 0 : 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = loader.size() + 1;
  std::string text(sizeof header + sizeof segment, '\0');
  std::memcpy(text.data(), &header, sizeof header);
  std::memcpy(text.data() + sizeof header, &segment, sizeof segment);
  return text + loader + std::string(1, '\0');
}

int own_machine() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  Elf64_Ehdr header{};
  self.read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_machine;
}

// If other formats are registered (qemu, Wine), the kernel decides about files of unknown formats.
bool kernel_knows_more_formats() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/sys/fs/binfmt_misc", ignored)) {
    if (entry.path().filename() != "register" && entry.path().filename() != "status") return true;
  }
  return false;
}

ProgramFacts program(const std::string& path) {
  return find_program(path, {"PATH=/usr/bin:/bin"});
}

}  // namespace

TEST_CASE("a program that does not exist is not found, and a similar one is suggested") {
  Folder folder;
  folder.file("train", "#!/bin/sh\n");
  CHECK_FALSE(program(folder.path("trian")).found);
  CHECK(program(folder.path("trian")).suggestion == folder.path("train"));
}

TEST_CASE("a script that does not exist is not found, and a similar one is suggested") {
  Folder folder;
  folder.file("train.py", "pass\n", 0644);
  CHECK(find_script(folder.path("trian.py")).suggestion == folder.path("train.py"));
  CHECK(program(folder.path("train.p")).suggestion == folder.path("train.py"));
}

TEST_CASE("a file without execute permission is found but not executable") {
  Folder folder;
  const ProgramFacts facts = program(folder.file("train", "#!/bin/sh\n", 0644));
  CHECK(facts.found);
  CHECK(facts.readable);
  CHECK_FALSE(facts.executable);
  CHECK_FALSE(facts.execute_bits);
}

TEST_CASE("a directory is not a program, except for Python") {
  Folder folder;
  CHECK(program(folder.path()).is_directory);
  CHECK_FALSE(program(folder.path()).executable);
  CHECK_FALSE(find_script(folder.path()).is_package);
  folder.file("__main__.py", "pass\n");
  CHECK(find_script(folder.path()).is_package);
}

TEST_CASE("a name without a slash is searched for in PATH") {
  CHECK(program("sh").executable);
  CHECK(program("sh").path.ends_with("/sh"));
  CHECK(program("sh").format == FileFormat::elf);
  CHECK_FALSE(program("no-such-program-here").found);
  CHECK(program("no-such-program-here").path == "no-such-program-here");
}

TEST_CASE("a script in the current directory is not searched for in PATH") {
  CHECK_FALSE(find_script("sh").found);
}

TEST_CASE("a missing interpreter of a script is named") {
  Folder folder;
  CHECK(program(folder.file("a", "#!/no/such/shell -e\n")).missing_interpreter == "/no/such/shell");
  CHECK(program(folder.file("b", "#! /bin/sh\r\n")).missing_interpreter == "/bin/sh\r");
  CHECK(program(folder.file("c", "#!/usr/bin/env no-such-python\n")).missing_interpreter == "no-such-python");
  for (const char* fine : {"#!/bin/sh\n", "#!/usr/bin/env sh\n", "#!/usr/bin/env -S no-such\n", "#!\n", "#!/bin/sh"}) {
    CAPTURE(fine);
    CHECK(program(folder.file("d", fine)).missing_interpreter.empty());
    CHECK(program(folder.path("d")).format == FileFormat::script);
  }
}

TEST_CASE("a missing dynamic loader is named") {
  Folder folder;
  CHECK(program(folder.file("a", elf(own_machine(), "/no/such/ld.so"))).missing_interpreter == "/no/such/ld.so");
  CHECK(program(folder.file("b", elf(own_machine(), "/bin/sh"))).missing_interpreter.empty());
  CHECK(program(folder.file("c", elf(own_machine(), ""))).missing_interpreter.empty());
  CHECK(program(folder.path("a")).foreign_machine.empty());
}

TEST_CASE("a program for another architecture is named") {
  Folder folder;
  const int other = own_machine() == EM_S390 ? EM_X86_64 : EM_S390;
  const ProgramFacts facts = program(folder.file("a", elf(other, "/no/such/ld.so")));
  CHECK(facts.foreign_machine == (kernel_knows_more_formats() ? "" : other == EM_S390 ? "s390" : "x86-64"));
  CHECK(facts.missing_interpreter.empty());
}

TEST_CASE("a damaged program is left to the kernel to reject") {
  Folder folder;
  const std::string whole = elf(own_machine(), "/no/such/ld.so");
  for (const std::size_t length : {std::size_t{4}, std::size_t{20}, sizeof(Elf64_Ehdr), whole.size() - 8}) {
    CAPTURE(length);
    CHECK(program(folder.file("a", whole.substr(0, length))).missing_interpreter.empty());
  }
}

TEST_CASE("a text file without a #! line is distinguished from other files") {
  Folder folder;
  const FileFormat expected = kernel_knows_more_formats() ? FileFormat::other : FileFormat::text;
  CHECK(program(folder.file("a", "echo hello\n")).format == expected);
  CHECK(program(folder.file("b", std::string("PK\3\4\0\0", 6))).format == FileFormat::other);
}

TEST_CASE("the interpreter is PYTHON_EXEC, else that of the virtual environment, else the one in PATH") {
  CHECK(interpreter_candidates({"PYTHON_EXEC=/a/python", "VIRTUAL_ENV=/b"}) == std::vector<std::string>{"/a/python"});
  using Paths = std::vector<std::string>;
  CHECK(interpreter_candidates({}, "/c") == Paths{"/c/bin/python", "python3", "python"});
  CHECK(interpreter_candidates({"VIRTUAL_ENV=/b"}, "/c") ==
        Paths{"/b/bin/python", "/c/bin/python", "python3", "python"});
  CHECK(interpreter_candidates({"VIRTUAL_ENV=/b"}) == Paths{"/b/bin/python", "python3", "python"});
  CHECK(interpreter_candidates({"PYTHON_EXEC=", "VIRTUAL_ENV="}) == Paths{"python3", "python"});
}
