// This program trains a libtorch net on all ranks: a convolutional net or a transformer that classifies pictures.
//
//   ddplaunch --nproc-per-node=2 train_torch [conv|transformer] [MNIST_FOLDER]
//
// MNIST_FOLDER holds train-images-idx3-ubyte and train-labels-idx1-ubyte. Without it the program draws the pictures:
// squares, discs, crosses and bars of 28 x 28 pixels with noise. A fifth of them is kept for the test.
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kBatch = 32;  // samples per step of one rank
constexpr int kSteps = 150;

struct Pictures {
  torch::Tensor images;  // [n, 1, 28, 28], 0 to 1
  torch::Tensor labels;  // [n]
  std::int64_t classes = 0;

  std::int64_t size() const { return images.size(0); }
};

// Draws picture number i.
void draw(std::int64_t i, std::int64_t shape, float* pixels) {
  std::mt19937 generator(static_cast<std::uint32_t>(i));
  std::uniform_real_distribution<double> place(10, 18);
  const double x0 = place(generator);
  const double y0 = place(generator);
  const double size = std::uniform_real_distribution<double>(5, 8)(generator);
  std::normal_distribution<float> noise(0, 0.15F);
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const double dx = std::abs(static_cast<double>(x) - x0);
      const double dy = std::abs(static_cast<double>(y) - y0);
      const bool inside[] = {dx < size && dy < size, dx * dx + dy * dy < size * size,
                             (dx < 2 && dy < size) || (dy < 2 && dx < size), dx < size && dy < 2};
      pixels[y * kSide + x] = (inside[shape] ? 0.8F : 0.1F) + noise(generator);
    }
  }
}

Pictures draw_pictures(std::int64_t count) {
  Pictures pictures{torch::empty({count, 1, kSide, kSide}), torch::arange(count).remainder(4), 4};
  for (std::int64_t i = 0; i < count; ++i) draw(i, i % 4, pictures.images[i].data_ptr<float>());
  return pictures;
}

// Reads the IDX format: big-endian words (magic, one size per dimension), then bytes.
torch::Tensor read_idx(const std::string& path, std::uint32_t magic) {
  std::ifstream file(path, std::ios::binary);
  const auto word = [&] {
    unsigned char bytes[4] = {};
    file.read(reinterpret_cast<char*>(bytes), 4);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  };
  if (!file) throw std::runtime_error("cannot open " + path);
  if (word() != magic) throw std::runtime_error("cannot read " + path + ": no IDX file of the expected kind");
  std::vector<std::int64_t> sizes;
  for (std::uint32_t i = 0; i < (magic & 0xffU); ++i) sizes.push_back(word());
  torch::Tensor result = torch::empty(sizes, torch::kByte);
  file.read(reinterpret_cast<char*>(result.data_ptr()), result.numel());
  if (!file) throw std::runtime_error(path + " is shorter than it says");
  return result;
}

Pictures read_mnist(const std::string& folder) {
  const torch::Tensor images = read_idx(folder + "/train-images-idx3-ubyte", 0x803);
  const torch::Tensor labels = read_idx(folder + "/train-labels-idx1-ubyte", 0x801);
  return {images.to(torch::kFloat).div(255).unsqueeze(1), labels.to(torch::kLong), 10};
}

struct ConvolutionalImpl : torch::nn::Module {
  torch::nn::Sequential layers;

  explicit ConvolutionalImpl(std::int64_t classes)
      : layers(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).stride(2)), torch::nn::BatchNorm2d(8),
               torch::nn::ReLU(), torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).stride(2)), torch::nn::ReLU(),
               torch::nn::Flatten(), torch::nn::Linear(16 * 6 * 6, classes)) {
    register_module("layers", layers);
  }
  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }
};
TORCH_MODULE(Convolutional);

// The rows of a picture are treated as the words of a sentence.
struct TransformerImpl : torch::nn::Module {
  static constexpr std::int64_t kWidth = 32;
  torch::nn::Linear embedding{kSide, kWidth};
  torch::Tensor place = register_parameter("place", torch::randn({kSide, 1, kWidth}) * 0.1);
  torch::nn::TransformerEncoder encoder{
      torch::nn::TransformerEncoderLayer(
          torch::nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(64).dropout(0)),
      2};
  torch::nn::Linear head;

  explicit TransformerImpl(std::int64_t classes) : head(kWidth, classes) {
    register_module("embedding", embedding);
    register_module("encoder", encoder);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor rows = images.squeeze(1).transpose(0, 1);  // [row, picture, column]
    return head->forward(encoder->forward(embedding->forward(rows) + place).mean(0));
  }
};
TORCH_MODULE(Transformer);

template <typename Net>
void train(ddp::ProcessGroup& world, const Pictures& pictures) {
  torch::manual_seed(world.rank());  // ranks differ on purpose, and then all get rank 0's weights
  ddp::libtorch::DistributedDataParallel net(world, Net(pictures.classes));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-3));

  const std::int64_t trained = pictures.size() * 4 / 5;
  ddp::DistributedSampler sampler(trained, world);
  std::vector<std::int64_t> order;
  for (int step = 0; step < kSteps; ++step) {
    if (std::ssize(order) < kBatch) {
      sampler.set_epoch(step);
      order = sampler.indices();
    }
    const torch::Tensor batch = torch::tensor(std::vector<std::int64_t>(order.end() - kBatch, order.end()));
    order.resize(order.size() - kBatch);
    optimizer.zero_grad();
    const torch::Tensor scores = net.forward(pictures.images.index_select(0, batch));
    torch::nn::functional::cross_entropy(scores, pictures.labels.index_select(0, batch)).backward();
    net.data_parallel().clip_gradients(1.0);
    optimizer.step();
  }

  // Each rank tests its share.
  net->eval();
  const torch::NoGradGuard no_grad;
  ddp::DistributedSampler shares(pictures.size() - trained, world, {.shuffle = false});
  std::vector<std::int64_t> mine = shares.indices();
  mine.resize(mine.size() - static_cast<std::size_t>(shares.padding()));
  const torch::Tensor tested = torch::tensor(mine) + trained;
  const torch::Tensor guesses = net->forward(pictures.images.index_select(0, tested)).argmax(1);
  std::vector<std::int64_t> right_of = {guesses.eq(pictures.labels.index_select(0, tested)).sum().item<std::int64_t>(),
                                        tested.size(0)};
  world.all_reduce(right_of).wait();
  const double share = static_cast<double>(right_of[0]) / static_cast<double>(right_of[1]);
  const auto hash = static_cast<unsigned long long>(net.data_parallel().verify_parameters());
  if (world.rank() == 0) {
    std::printf("%lld of %lld pictures told right (%.1f %%), parameters %016llx on all ranks\n",
                static_cast<long long>(right_of[0]), static_cast<long long>(right_of[1]), 100 * share, hash);
  }
  if (share < 0.8) throw std::runtime_error("the pictures were not learnt");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string kind = argc > 1 ? argv[1] : "conv";
    if (argc > 3 || (kind != "conv" && kind != "transformer")) {
      throw std::runtime_error("want conv or transformer, and perhaps a folder with MNIST");
    }
    ddp::ProcessGroup world = ddp::init();
    const Pictures pictures = argc > 2 ? read_mnist(argv[2]) : draw_pictures(4000);
    kind == "conv" ? train<Convolutional>(world, pictures) : train<Transformer>(world, pictures);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_torch: %s\n", error.what());
    return 1;
  }
}
