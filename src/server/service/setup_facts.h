// The backend, its kernels and its memory, for /status. Set by the command that starts the server.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nibble::server {

struct SetupFacts {
  struct Kernel {
    std::string operation, weights, activations, rows, name, reason;
  };
  struct Memory {
    std::string what;
    size_t bytes;
  };
  std::string backend;    // "cpu"
  std::string device;     // description in one line
  size_t num_devices{1};  // GPUs (on CPUs: machines) that share the model
  std::vector<Kernel> kernels;
  std::vector<Memory> memory;  // memory plan of the fullest device, by its parts
  size_t memory_budget{0};     // bytes of all parts, plus what was still free at the start
};

}  // namespace nibble::server
