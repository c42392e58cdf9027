// This header declares the training text as numbers, and the table that a model must beat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace charlm {

struct Corpus {
  std::string alphabet;             // every byte that occurs in the text, ascending
  std::vector<std::uint8_t> train;  // indices into the alphabet
  std::vector<std::uint8_t> valid;  // the held-out tail
};

// Reads a file and keeps its last tenth for validation. Throws std::runtime_error if it cannot be read or is shorter
// than 1000 bytes.
Corpus read_corpus(const std::string& path);

struct BigramScore {
  double perplexity = 0;  // perplexity on the validation text
  double smoothing = 0;   // the added count that gave this perplexity
};

// Returns the score of the best table of P(next | current) from the counts of the training text. The added count
// (additive smoothing) is the best one of a fine grid for the validation text, which is more help than the model gets.
BigramScore best_bigram(const Corpus& corpus);

}  // namespace charlm
