// Describes the file that a worker would execute, or why it cannot be executed. Only files are read for this.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

enum class FileFormat {
  other,  // left to the kernel
  elf,
  script,  // begins with #!
  text     // any other file that holds only text
};

struct ProgramFacts {
  std::string path;  // path of the file; the requested path if it was not found
  bool found = false;
  bool denied = false;  // a directory on the way may not be searched
  bool is_regular = false;
  bool is_directory = false;
  bool is_package = false;  // a directory that Python runs: it has a __main__.py
  bool executable = false;  // an executable regular file
  // The file's mode has execute bits. If `executable` is false nevertheless, the file system forbids execution or the
  // bits are for other users.
  bool execute_bits = false;
  bool readable = false;
  FileFormat format = FileFormat::other;
  std::string foreign_machine;      // architecture of an ELF file for another kind of processor
  std::string missing_interpreter;  // interpreter of a #! line, or dynamic loader of an ELF file, that does not exist
  std::string suggestion;           // file that the user probably meant
};

// A Python script needs no execute permission and is not searched for in PATH.
enum class ProgramKind { executable, script, module };

// Returns the folders in which execvp searches for a name without a slash, in order.
std::vector<std::string> path_folders(const std::vector<std::string>& environment);

// Searches as execvp does: a name with a slash is a path, any other name is searched for in PATH of `environment`.
ProgramFacts find_program(const std::string& program, const std::vector<std::string>& environment);
ProgramFacts find_script(const std::string& script);

// Returns the candidates for Python, of which the first one that exists is taken: that of the activated virtual
// environment, that of the virtual environment `own` that contains the launcher, python3 and python from PATH. If
// $PYTHON_EXEC is set, it is the only one.
std::vector<std::string> interpreter_candidates(const std::vector<std::string>& environment,
                                                const std::string& own = "");

// Returns the virtual environment that contains a program by its path, or an empty string if there is none. Symbolic
// links in the path are not followed.
std::string virtual_environment_of(const std::string& program_path);

}  // namespace ddp::launcher
