#include "launcher/start/facts/program_facts.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kMostNeighbours = 10'000;

struct Machine {
  int number;
  const char* name;
};
constexpr std::array kMachines{
    Machine{EM_X86_64, "x86-64"},   Machine{EM_386, "x86"},      Machine{EM_AARCH64, "AArch64"}, Machine{EM_ARM, "ARM"},
    Machine{EM_PPC64, "PowerPC64"}, Machine{EM_RISCV, "RISC-V"}, Machine{EM_S390, "s390"}};

// The offset of e_machine is the same in both classes. It has the byte order of the file.
int machine_of(const std::string& head) {
  const auto byte = [&](std::size_t i) { return static_cast<int>(static_cast<unsigned char>(head[i])); };
  return head[EI_DATA] == ELFDATA2MSB ? byte(18) << 8 | byte(19) : byte(19) << 8 | byte(18);
}

// Returns whether this node executes programs for `machine`: the launcher's own architecture, or the 32-bit one of the
// same family.
bool is_ours(int machine) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string head(sizeof(Elf32_Ehdr), '\0');
  if (!self.read(head.data(), static_cast<std::streamsize>(head.size()))) return true;  // the kernel decides
  const int own = machine_of(head);
  return machine == own || (own == EM_X86_64 && machine == EM_386) || (own == EM_AARCH64 && machine == EM_ARM);
}

std::string machine_name(int machine) {
  const auto* known = std::ranges::find(kMachines, machine, &Machine::number);
  return known != kMachines.end() ? known->name : "machine type " + std::to_string(machine);
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

// Reads a T at `offset`. Returns false past the end.
template <typename T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

// Returns the dynamic loader that the program headers name, or an empty string for a static program.
template <typename Header, typename Segment>
std::string dynamic_loader(std::ifstream& file) {
  Header header{};
  if (!read_at(file, 0, header)) return "";
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Segment segment{};
    if (!read_at(file, header.e_phoff + i * header.e_phentsize, segment)) return "";
    if (segment.p_type != PT_INTERP || segment.p_filesz > kHeadBytes) continue;
    std::string name(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(name.data(), static_cast<std::streamsize>(name.size()))) return "";
    return name.c_str();
  }
  return "";
}

void examine_elf(std::ifstream& file, const std::string& head, ProgramFacts& facts) {
  facts.format = FileFormat::elf;
  const int machine = machine_of(head);
  if (!is_ours(machine)) {
    facts.foreign_machine = machine_name(machine);
    return;
  }
  const std::string loader = head[EI_CLASS] == ELFCLASS64 ? dynamic_loader<Elf64_Ehdr, Elf64_Phdr>(file)
                                                          : dynamic_loader<Elf32_Ehdr, Elf32_Phdr>(file);
  if (!loader.empty() && !exists(loader)) facts.missing_interpreter = loader;
}

void examine_script(const std::string& head, const std::vector<std::string>& environment, ProgramFacts& facts) {
  facts.format = FileFormat::script;
  // A carriage return at the end belongs to the name: such a script cannot run, and the name should show why.
  const std::vector<std::string> line = base::words(head.substr(2, head.find('\n') - 2));
  if (line.empty()) return;
  if (!exists(line[0])) {
    facts.missing_interpreter = line[0];
    return;
  }
  // The program in "#!/usr/bin/env python3" is searched for in PATH. Options and assignments are left to env.
  const bool by_path = fs::path(line[0]).filename() == "env" && line.size() == 2 && line[1].front() != '-' &&
                       line[1].find('=') == std::string::npos;
  if (by_path && !find_program(line[1], environment).found) facts.missing_interpreter = line[1];
}

// The kernel may know further formats (qemu for other architectures, Wine, …). The launcher then leaves the decision to
// the kernel.
bool kernel_knows_more_formats() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/sys/fs/binfmt_misc", ignored)) {
    const std::string name = entry.path().filename();
    if (name != "register" && name != "status") return true;
  }
  return false;
}

void examine_contents(const std::vector<std::string>& environment, ProgramFacts& facts) {
  std::ifstream file(facts.path, std::ios::binary);
  if (!file) return;  // a program may be executable without being readable
  std::string head(kHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  file.clear();
  if (head.size() >= sizeof(Elf32_Ehdr) && head.starts_with("\177ELF")) {
    examine_elf(file, head, facts);
  } else if (head.starts_with("#!")) {
    examine_script(head, environment, facts);
  } else if (head.find('\0') == std::string::npos) {
    facts.format = FileFormat::text;
  }
  const bool strange = facts.format == FileFormat::text || !facts.foreign_machine.empty();
  if (strange && kernel_knows_more_formats()) {
    facts.format = FileFormat::other;
    facts.foreign_machine.clear();
  }
}

ProgramFacts examine(const std::string& path) {
  ProgramFacts facts;
  facts.path = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    facts.denied = errno == EACCES;
    return facts;
  }
  facts.found = true;
  facts.is_directory = S_ISDIR(status.st_mode);
  facts.is_package = facts.is_directory && exists(path + "/__main__.py");
  facts.execute_bits = (status.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
  facts.executable = S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  facts.readable = ::access(path.c_str(), R_OK) == 0;
  facts.is_regular = S_ISREG(status.st_mode);
  return facts;
}

bool worth_suggesting(const ProgramFacts& facts, ProgramKind kind) {
  const bool script = facts.readable && facts.is_regular;
  return kind == ProgramKind::script ? script : facts.executable || (script && facts.path.ends_with(".py"));
}

// Returns a file with a similar name in the same directory, or an empty string if there is none.
std::string similar_file(const std::string& path, ProgramKind kind) {
  const fs::path wanted(path);
  const fs::path directory = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (names.size() > kMostNeighbours) break;
    if (worth_suggesting(examine(entry.path()), kind)) names.push_back(entry.path().filename());
  }
  const auto nearest = base::nearest_match(wanted.filename().string(), names);
  if (!nearest) return "";
  if (wanted.has_parent_path()) return (wanted.parent_path() / *nearest).string();
  const bool script = kind == ProgramKind::script || nearest->ends_with(".py");
  return script ? *nearest : "./" + *nearest;
}

}  // namespace

std::vector<std::string> path_folders(const std::vector<std::string>& environment) {
  const std::string path = find_variable(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::vector<std::string> folders = base::split(path, ':');
  std::ranges::replace(folders, std::string(), std::string("."));
  return folders;
}

ProgramFacts find_program(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) {
    ProgramFacts facts = examine(program);
    if (facts.executable) examine_contents(environment, facts);
    if (!facts.found) facts.suggestion = similar_file(program, ProgramKind::executable);
    return facts;
  }
  ProgramFacts best;
  best.path = program;
  for (const std::string& directory : path_folders(environment)) {
    ProgramFacts facts = examine(directory + "/" + program);
    if (facts.executable) {
      examine_contents(environment, facts);
      return facts;
    }
    if (facts.found && !facts.is_directory && !best.found) best = facts;
  }
  if (best.found) return best;
  // The most common mistake is to write "train" for "./train".
  if (examine("./" + program).executable) best.suggestion = "./" + program;
  if (best.suggestion.empty()) best.suggestion = similar_file(program, ProgramKind::executable);
  return best;
}

ProgramFacts find_script(const std::string& script) {
  ProgramFacts facts = examine(script);
  // A pipe is not examined: Python could not read the same bytes again.
  if (facts.readable && facts.is_regular) examine_contents({}, facts);
  if (!facts.found) facts.suggestion = similar_file(script, ProgramKind::script);
  return facts;
}

std::string virtual_environment_of(const std::string& program_path) {
  const fs::path folder = fs::absolute(program_path).parent_path().parent_path();
  return exists(folder / "pyvenv.cfg") && exists(folder / "bin/python") ? folder.string() : "";
}

std::vector<std::string> interpreter_candidates(const std::vector<std::string>& environment, const std::string& own) {
  const std::string chosen = find_variable(environment, "PYTHON_EXEC").value_or("");
  if (!chosen.empty()) return {chosen};
  std::vector<std::string> candidates;
  for (const std::string& folder : {find_variable(environment, "VIRTUAL_ENV").value_or(""), own}) {
    if (!folder.empty()) candidates.push_back(folder + "/bin/python");
  }
  candidates.insert(candidates.end(), {"python3", "python"});
  return candidates;
}

}  // namespace ddp::launcher
