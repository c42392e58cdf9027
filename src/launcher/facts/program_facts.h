// ProgramFacts: what the file is that a worker would execute, or why it cannot be. Read from files only.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

enum class FileFormat {
  other,  // left to the kernel
  elf,
  script,  // begins with #!
  text     // neither, and nothing but text
};

struct ProgramFacts {
  std::string path;  // where it is; as asked for if it was not found
  bool found = false;
  bool denied = false;  // a directory on the way may not be searched
  bool is_regular = false;
  bool is_directory = false;
  bool is_package = false;  // a directory that Python runs: it has a __main__.py
  bool executable = false;  // an executable regular file
  bool execute_bits =
      false;  // its mode has them; with `executable` false the file system forbids it, or they are others'
  bool readable = false;
  FileFormat format = FileFormat::other;
  std::string foreign_machine;      // an ELF file for another architecture: its name
  std::string missing_interpreter;  // of #!, or the dynamic loader of an ELF file, that does not exist
  std::string suggestion;           // a file that was probably meant
};

// A Python script needs no execute permission and is not searched for in PATH.
enum class ProgramKind { executable, script, module };

// Where execvp looks for a name without a slash, in that order.
std::vector<std::string> path_folders(const std::vector<std::string>& environment);

// As execvp looks: a name with a slash is a path, any other is searched for in PATH of `environment`.
ProgramFacts find_program(const std::string& program, const std::vector<std::string>& environment);
ProgramFacts find_script(const std::string& script);

// Where Python is looked for: $PYTHON_EXEC, or else the activated virtual environment's, or else that of the virtual
// environment `own` in which the launcher is, or else python3 or python from PATH.
std::vector<std::string> interpreter_candidates(const std::vector<std::string>& environment,
                                                const std::string& own = "");

// The virtual environment that a program belongs to by its path, whose symbolic links are not followed. Empty: none.
std::string virtual_environment_of(const std::string& program_path);

}  // namespace ddp::launcher
