// What a launcher that starts others over ssh says to each of them through its standard input, and what that one
// replies through its standard output: values and their text. Pure.
//
//   here                                  ssh                         ddplaunch on-host
//   the launch request, a line           ->   reads it, changes into the directory, makes its plan
//                                         <-    mark + "ready"
//   {"go":true}, when all hosts are ready  ->   starts its part of the job; its output goes through the same two pipes
//   {"signal":15}, for each signal         ->   as if it had come to that launcher
//                                         <-    mark + "ended CODE", its last word
//
// The end of the input is the end of the connection: that launcher then ends its workers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

inline constexpr int kHostProtocol = 1;

struct LaunchRequest {
  std::string nonce;                     // of the mark: no program can say the same by accident
  std::string controller;                // the name of the machine that gives the launch request
  std::string host;                      // the one that gets it, as the user calls it
  std::string directory;                 // to work in
  std::vector<std::string> words;        // a command line, the launcher's name first
  std::vector<std::string> environment;  // "NAME=value", set on top of that of the login
  std::string token;                     // the job's; empty: none

  friend bool operator==(const LaunchRequest&, const LaunchRequest&) = default;
};

// A line without its end. Bytes of any kind come back as they were.
std::string encode(const LaunchRequest& request);
// The failure is a sentence for the user.
base::Result<LaunchRequest> decode_request(std::string_view line);

// A later word.
struct ControllerWord {
  bool start = false;
  int signal = 0;  // 0: none

  friend bool operator==(const ControllerWord&, const ControllerWord&) = default;
};
std::string encode(const ControllerWord& word);
std::optional<ControllerWord> decode_word(std::string_view line);

// What stands before a reply. It may stand in the middle of a line, which a worker has left unfinished.
std::string reply_mark(const std::string& nonce);

struct LaunchReply {
  bool ready = false;
  std::optional<int> ended;  // the exit code

  friend bool operator==(const LaunchReply&, const LaunchReply&) = default;
};
std::string encode(const LaunchReply& reply);
// `text` is what follows the mark, with or without the end of the line.
std::optional<LaunchReply> decode_reply(std::string_view text);

}  // namespace ddp::launcher
