#include "charlm/text.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

namespace charlm {

Corpus read_corpus(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) throw std::runtime_error("cannot read " + path + ": no such file");
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file && !file.eof()) throw std::runtime_error("cannot read " + path);
  if (text.size() < 1000) {
    throw std::runtime_error("cannot train on " + path + ": " + std::to_string(text.size()) +
                             " bytes can be read, 1000 are needed. Choose another file with --text");
  }
  bool occurs[256] = {};
  for (const char c : text) occurs[static_cast<unsigned char>(c)] = true;
  Corpus corpus;
  std::uint8_t symbol_of[256] = {};
  for (int byte = 0; byte < 256; ++byte) {
    if (!occurs[byte]) continue;
    symbol_of[byte] = static_cast<std::uint8_t>(corpus.alphabet.size());
    corpus.alphabet.push_back(static_cast<char>(byte));
  }
  const std::size_t train_size = text.size() - text.size() / 10;
  for (std::size_t i = 0; i < text.size(); ++i) {
    (i < train_size ? corpus.train : corpus.valid).push_back(symbol_of[static_cast<unsigned char>(text[i])]);
  }
  return corpus;
}

BigramScore best_bigram(const Corpus& corpus) {
  const std::size_t symbols = corpus.alphabet.size();
  std::vector<double> pairs(symbols * symbols);
  std::vector<double> firsts(symbols);
  for (std::size_t i = 1; i < corpus.train.size(); ++i) {
    pairs[corpus.train[i - 1] * symbols + corpus.train[i]] += 1;
    firsts[corpus.train[i - 1]] += 1;
  }
  BigramScore best{std::numeric_limits<double>::infinity(), 0};
  for (int grid = 0; grid < 236; ++grid) {
    const double smoothing = 1e-4 * std::pow(1.05, grid);  // up to 10
    double nats = 0;
    for (std::size_t i = 1; i < corpus.valid.size(); ++i) {
      const std::size_t current = corpus.valid[i - 1];
      const double count = pairs[current * symbols + corpus.valid[i]];
      nats -= std::log((count + smoothing) / (firsts[current] + smoothing * static_cast<double>(symbols)));
    }
    const double perplexity = std::exp(nats / static_cast<double>(corpus.valid.size() - 1));
    if (perplexity < best.perplexity) best = {perplexity, smoothing};
  }
  return best;
}

}  // namespace charlm
