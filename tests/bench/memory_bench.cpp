// memory_bench: prints the bytes per second that this process reads and writes. The figure is the median of nine passes
// of a[i] += b[i] over two arrays of 128 MiB. Each pass reads two arrays and writes one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

int main() {
  constexpr std::size_t kCount = (std::size_t{128} << 20) / sizeof(float);
  std::vector<float> a(kCount, 1);
  std::vector<float> b(kCount, 2);
  std::vector<double> rates;
  for (int pass = 0; pass < 9; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kCount; ++i) a[i] += b[i];
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    rates.push_back(3.0 * sizeof(float) * kCount / seconds);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%.0f\n", a[7] > 0 ? rates[rates.size() / 2] : 0);
  return 0;
}
