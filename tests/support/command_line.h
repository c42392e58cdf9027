// Parses command lines of ddplaunch in tests.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using Words = std::vector<std::string>;

// `words` follow the name of the launcher, `name`.
inline ddp::launcher::ParsedCommand parsed(const Words& words, const Words& environment = {},
                                           const std::string& name = "ddplaunch") {
  std::vector<const char*> argv{name.c_str()};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return ddp::launcher::parse_command_line(static_cast<int>(argv.size()), argv.data(), environment);
}

// Requires that the words are right, and returns the options of the command.
template <typename CommandOptions = ddp::launcher::Options>
CommandOptions parsed_as(const Words& words, const Words& environment = {}, const std::string& name = "ddplaunch") {
  const auto result = parsed(words, environment, name);
  if (const auto* error = std::get_if<ddp::launcher::UsageError>(&result)) FAIL(error->message);
  return std::get<CommandOptions>(result);
}

// Requires that the words are wrong, and returns the message for the user.
inline std::string mistake(const Words& words, const Words& environment = {}, const std::string& name = "ddplaunch") {
  const auto result = parsed(words, environment, name);
  REQUIRE(std::holds_alternative<ddp::launcher::UsageError>(result));
  return std::get<ddp::launcher::UsageError>(result).message;
}

// Requires that the words ask for a text, and returns it.
inline std::string information(const Words& words, const std::string& name = "ddplaunch") {
  const auto result = parsed(words, {}, name);
  REQUIRE(std::holds_alternative<ddp::launcher::Information>(result));
  return std::get<ddp::launcher::Information>(result).text;
}
