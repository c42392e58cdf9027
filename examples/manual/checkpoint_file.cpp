// Code of docs/how-to/restart-and-checkpoint.md: a checkpoint in one file.
#include <ddp/ddp.h>

#include <cstdint>
#include <string>
#include <vector>

int main() {
  ddp::ProcessGroup world = ddp::init();
  std::vector<float> weight(4);
  // [file]
  const std::vector<ddp::Tensor> tensors = {{"weight", weight, {4}}};
  ddp::CheckpointFile checkpoint("model.safetensors", world);
  std::int64_t step = 0;
  if (checkpoint.exists()) step = std::stoll(checkpoint.load(tensors).at("step"));
  // …
  checkpoint.save(tensors, {{"step", std::to_string(step)}});
  // [/file]
}
