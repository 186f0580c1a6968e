#include "backend/cuda/memory/device_adapters.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/memory/arena.h"

namespace nibble::cuda {
namespace {

using Updates = std::vector<const std::optional<DenseUpdate>*>;

std::vector<float> transposed(const std::vector<float>& b, int rank) {
  std::vector<float> to(b.size());
  const size_t num_rows = b.size() / rank;
  for (size_t row = 0; row < num_rows; ++row)
    for (int k = 0; k < rank; ++k) to[k * num_rows + row] = b[row * rank + k];
  return to;
}

// Divides a buffer into factors and tables. With a null buffer, only adds up their sizes.
class AdapterPlacer {
 public:
  explicit AdapterPlacer(const DeviceBuffer& device) : arena_(device.as<uint8_t>()) {}

  void place(const RequestAdapters& adapters, DeviceAdapters& to) {
    for (size_t n = 0; n < adapters.front().layers.size(); ++n) {
      Updates qkv, o, router;
      for (const RequestAdapter& adapter : adapters) {
        const LayerUpdates& layer = adapter.layers[n];
        qkv.insert(qkv.end(), {&layer.q, &layer.k, &layer.v});
        o.push_back(&layer.o);
        router.push_back(&layer.router);
      }
      to.layers.push_back({put_table(qkv), put_table(o), put_table(router)});
    }
    Updates unembedding;
    for (const RequestAdapter& adapter : adapters) unembedding.push_back(&adapter.unembedding);
    to.unembedding = put_table(unembedding);
  }
  size_t num_bytes() const { return arena_.size(); }

 private:
  UpdateTable put_table(const Updates& updates) {
    std::vector<AdapterUpdate> table(updates.size());
    int most_rank = 0;
    for (size_t i = 0; i < updates.size(); ++i) {
      if (!*updates[i]) continue;
      const auto& [rank, a, b] = **updates[i];
      table[i] = {put(a), put_transposed(b, rank), rank};
      most_rank = std::max(most_rank, rank);
    }
    if (most_rank == 0) return {};
    return {put(table), most_rank};
  }
  template <typename T>
  const T* put(const std::vector<T>& values) {
    T* const to = arena_.take_array<T>(values.size());
    if (to) copy(to, values);
    return to;
  }
  const float* put_transposed(const std::vector<float>& b, int rank) {
    auto* const to = arena_.take_array<float>(b.size());
    if (to) copy(to, transposed(b, rank));
    return to;
  }
  template <typename T>
  static void copy(T* to, const std::vector<T>& values) {
    copy_to_device(to, values.data(), values.size() * sizeof(T), "copying adapters");
  }

  Arena arena_;
};

}  // namespace

size_t device_adapter_bytes(const RequestAdapters& adapters) {
  if (adapters.empty()) return 0;
  AdapterPlacer placer{DeviceBuffer()};
  DeviceAdapters unplaced;
  placer.place(adapters, unplaced);
  return placer.num_bytes();
}

DeviceAdapters upload_adapters(const RequestAdapters& adapters) {
  DeviceAdapters placed;
  if (adapters.empty()) return placed;
  placed.storage = DeviceBuffer(device_adapter_bytes(adapters));
  AdapterPlacer(placed.storage).place(adapters, placed);
  return placed;
}

}  // namespace nibble::cuda
