// Activations as dense kernels read them: bfloat16 rows or images, or block-scaled rows.
#pragma once

#include <optional>
#include <vector>

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/verify/blocks.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"
#include "backend/cuda/verify/shapes.h"

namespace nibble::cuda::verify {

std::vector<uint16_t> bits_of(const Activations& x);  // returns the values as bfloat16

// Copies `normed` (the output of a norm) to GPU memory, as the kernel's input. If the kernel computes the
// norm itself, returns poisoned memory of the same size instead.
DeviceArray<uint16_t> given_norm(const Subject& subject, const Activations& normed);
// Returns a view of `num_rows` rows of activations, which are in the layout that the kernel reads: plain rows
// or an image.
cuda::Activations given(const Subject& subject, const DeviceArray<uint16_t>& activations, int num_rows);

// The output of a norm in GPU memory, in the layout and format that the kernel reads.
class KernelInput {
 public:
  KernelInput(const Subject& subject, const Activations& normed);
  const cuda::Activations& view() const { return view_; }
  const Activations& multiplied() const { return multiplied_; }  // the numbers that the kernel multiplies

 private:
  DeviceArray<uint16_t> rows_;
  std::optional<DeviceBlocks> blocks_;
  cuda::Activations view_;
  Activations multiplied_;
};

// room_for_blocks() returns scratch memory for project_blocks(), which stores codes there and scales after
// them. compare_scratch() compares every byte of `scratch` with `expected`.
DeviceArray<float> room_for_blocks(const HostBlocks& blocks);
void compare_scratch(Comparison& comparison, const std::vector<float>& scratch, const HostBlocks& expected);

}  // namespace nibble::cuda::verify
