// Reading of whole files, and where they are.
#pragma once

#include <string>

namespace ddp::base {

// The bytes of a file that is small or made up by the kernel (proc, sys); empty if it cannot be read.
std::string read_file(const std::string& path);
// The first line of such a file, without the end of the line.
std::string read_line(const std::string& path);

// The path of the file to which `path` leads by symbolic links; it need not exist. A program that replaces a file
// replaces this one, so that the links stay. Returns `path` if it is no link, or if the links go in a circle: then
// stat() fails with ELOOP, and the caller must not replace the link.
std::string behind_links(const std::string& path);

}  // namespace ddp::base
