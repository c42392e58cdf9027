#include "stack_reader/frame_names.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "launcher/run/stacks/function_name.h"

namespace ddp::stack_reader {
namespace {

using launcher::frame_text;
using launcher::short_function_name;

constexpr std::size_t kMostNameBytes = 4096;  // a longer name is not demangled

std::string to_hex(std::uint64_t value) {
  std::array<char, 2 + 16> digits = {'0', 'x'};
  return {digits.data(), std::to_chars(digits.data() + 2, digits.data() + digits.size(), value, 16).ptr};
}

std::string readable(const char* symbol) {
  const std::string_view all(symbol, ::strnlen(symbol, kMostNameBytes));
  const std::string name(all.substr(0, all.find('@')));  // removes the version of "poll@@GLIBC_2.2.5"
  if (!name.starts_with("_Z")) return short_function_name(name);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return short_function_name(status == 0 && text != nullptr ? text.get() : name);
}

std::string base_name(std::string_view path) {
  return frame_text(path.substr(path.rfind('/') + 1));
}

// Returns text such as "train.cpp:42", or "" if the line is not known.
std::string line_text(const char* file, int line) {
  return file == nullptr || line <= 0 ? "" : base_name(file) + ":" + std::to_string(line);
}

// Returns the line at which an inlined function was called.
std::string call_line_of(Dwarf_Die* function, Dwarf_Die* unit) {
  Dwarf_Attribute attribute{};
  Dwarf_Word file = 0;
  Dwarf_Word line = 0;
  Dwarf_Files* files = nullptr;
  const bool known = ::dwarf_formudata(::dwarf_attr(function, DW_AT_call_file, &attribute), &file) == 0 &&
                     ::dwarf_formudata(::dwarf_attr(function, DW_AT_call_line, &attribute), &line) == 0 &&
                     ::dwarf_getsrcfiles(unit, &files, nullptr) == 0;
  return known ? line_text(::dwarf_filesrc(files, file, nullptr, nullptr), static_cast<int>(line)) : "";
}

std::string name_of(Dwarf_Die* function) {
  Dwarf_Attribute attribute{};
  const char* linkage = ::dwarf_formstring(::dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute));
  const char* name = linkage != nullptr ? linkage : ::dwarf_diename(function);
  return name == nullptr ? "??" : readable(name);
}

// Holds a unit of debug information, and an address in the unit's own numbering.
struct Unit {
  Dwarf_Die* unit = nullptr;  // null if there is none for the address
  Dwarf_Addr address = 0;
};

Unit unit_of(Dwfl_Module* module, std::uint64_t address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = module == nullptr ? nullptr : ::dwfl_module_addrdie(module, address, &bias);
  if (unit != nullptr || module == nullptr) return {unit, address - bias};
  // clang writes no table of addresses (.debug_aranges), so the units are searched one after the other.
  do {
    unit = ::dwfl_module_nextcu(module, unit, &bias);
  } while (unit != nullptr && ::dwarf_haspc(unit, address - bias) <= 0);
  return {unit, address - bias};
}

std::string line_of(const Unit& place) {
  Dwarf_Line* line = place.unit == nullptr ? nullptr : ::dwarf_getsrc_die(place.unit, place.address);
  int number = 0;
  if (line == nullptr || ::dwarf_lineno(line, &number) != 0) return "";
  return line_text(::dwarf_linesrc(line, nullptr, nullptr), number);
}

// Adds the functions and blocks below `die` that contain the address, innermost first. Returns false if there are none.
// dwarf_getscopes() does not search namespaces, in which clang puts the definitions.
bool add_scopes(Dwarf_Die die, Dwarf_Addr address, std::vector<Dwarf_Die>& scopes) {
  Dwarf_Die child{};
  for (int end = ::dwarf_child(&die, &child); end == 0; end = ::dwarf_siblingof(&child, &child)) {
    const bool is_space = ::dwarf_tag(&child) == DW_TAG_namespace;
    if (!is_space && ::dwarf_haspc(&child, address) <= 0) continue;
    const bool goes_on = add_scopes(child, address, scopes);
    if (is_space && !goes_on) continue;
    if (!is_space) scopes.push_back(child);
    return true;
  }
  return false;
}

}  // namespace

// Describes the place of an address.
struct FrameNames::Place {
  Dwfl_Module* module = nullptr;
  std::string path;
  std::uint64_t asked = 0;    // the requested address
  std::uint64_t address = 0;  // address of the instruction
  std::uint64_t in_file = 0;  // the instruction's address within the file
};

FrameNames::Place FrameNames::find(const ProcessFiles& files, std::uint64_t address, bool is_return_address) {
  Place place;
  place.asked = address;
  place.address = is_return_address && address > 0 ? address - 1 : address;
  place.module = files.module_at(place.address);
  if (place.module == nullptr) return place;
  Dwarf_Addr begin = 0;
  const char* path = ::dwfl_module_info(place.module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  place.path = path == nullptr ? "" : path;
  GElf_Addr bias = 0;
  place.in_file = place.address - (::dwfl_module_getelf(place.module, &bias) != nullptr ? bias : begin);
  return place;
}

const std::string& FrameNames::function(const Place& place) {
  const auto [known, is_new] = functions_.try_emplace({place.path, place.in_file}, "??");
  if (!is_new) return known->second;
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* name = ::dwfl_module_addrinfo(place.module, place.address, &offset, &symbol, nullptr, nullptr, nullptr);
  if (name != nullptr) known->second = readable(name);
  return known->second;
}

std::string FrameNames::without_line(const Place& place) {
  if (place.module == nullptr) return "?? (" + to_hex(place.asked) + ")";
  return function(place) + " (" + base_name(place.path) + "+" + to_hex(place.in_file) + ")";
}

std::string FrameNames::name(const ProcessFiles& files, std::uint64_t address, bool is_return_address) {
  return without_line(find(files, address, is_return_address));
}

std::vector<std::string> FrameNames::with_lines(const ProcessFiles& files, std::uint64_t address,
                                                bool is_return_address) {
  const Place place = find(files, address, is_return_address);
  const Unit unit = unit_of(place.module, place.address);
  std::string line = line_of(unit);
  if (line.empty()) return {without_line(place)};
  std::vector<std::string> frames;
  std::vector<Dwarf_Die> scopes;
  add_scopes(*unit.unit, unit.address, scopes);
  for (Dwarf_Die& scope : scopes) {
    const int tag = ::dwarf_tag(&scope);
    if (tag == DW_TAG_subprogram) break;
    if (tag != DW_TAG_inlined_subroutine) continue;
    frames.push_back(name_of(&scope) + " (" + line + ")");
    line = call_line_of(&scope, unit.unit);
    if (line.empty()) line = base_name(place.path);
  }
  frames.push_back(function(place) + " (" + line + ")");
  return frames;
}

}  // namespace ddp::stack_reader
