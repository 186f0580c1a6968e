// The adapters of requests (BackendOptions::adapters) in GPU memory.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/dense/adapters.h"
#include "model/adapter/request_adapter.h"

namespace nibble::cuda {

// The updates of matrices that multiply the same activations, by each adapter.
struct UpdateTable {
  const AdapterUpdate* updates{nullptr};  // [adapters, matrices]; null: no adapter changes these matrices
  int most_rank{0};                       // the largest rank of `updates`
};

struct DeviceAdapters {
  struct Layer {
    UpdateTable qkv, o, router;  // qkv: three matrices, in this order
  };
  std::vector<Layer> layers;  // empty without adapters
  UpdateTable unembedding;
  DeviceBuffer storage{};  // holds all tables and factors
};

DeviceAdapters upload_adapters(const RequestAdapters& adapters);
size_t device_adapter_bytes(const RequestAdapters& adapters);  // bytes that upload_adapters() allocates

}  // namespace nibble::cuda
