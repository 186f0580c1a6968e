#pragma once

#include "backend/cuda/pipeline/stream.cuh"

namespace nibble::cuda {

// One segment of a strip of the router's matrix. A warp loads the segment into registers before the
// activations are ready.
struct RouterSegment {
  static constexpr int kTiles{kRouterSegmentTiles};
  uint4 parts[kTiles][4];  // the lane's A registers of each tile, in the order of layout/strips.h
  int first_tile, num_tiles;

  __device__ RouterSegment(const Strips& router, int unit) : first_tile(0), num_tiles(0) {
    if (unit >= router.num_strips * router.num_segments) return;
    const UnitCursor cursor(router, unit);
    first_tile = cursor.first_tile(router);
    num_tiles = cursor.num_tiles(router);
    const auto* from = reinterpret_cast<const uint4*>(
        router.data + size_t{1} * (unit / router.num_segments) * router.strip_bytes +
        size_t{1} * first_tile * tile_bytes(Layout::kBf16));
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        if (tile < num_tiles) parts[tile][part] = from[(tile * 4 + part) * 32 + threadIdx.x % 32];
  }
  // Adds the segment's products to `sums`. The sums have the same bits as those of UnitStream (stream.cuh).
  // activations(tile, group) returns the lane's B registers for one group of 32 columns. A tile of the
  // segment has the groups 0 and 1.
  template <typename Activations>
  __device__ void add(const Activations& activations, float (&sums)[4]) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      if (tile < num_tiles)
#pragma unroll
        for (int group = 0; group < 2; ++group) {
          const uint4 b = activations(tile, group);
          const auto multiply = [&](const uint4& part, uint32_t b0, uint32_t b1) {
            const uint32_t a[4]{part.x, part.y, part.z, part.w};
            mma_bf16(sums, a, b0, b1);
          };
          multiply(parts[tile][2 * group], b.x, b.y);
          multiply(parts[tile][2 * group + 1], b.z, b.w);
        }
  }
};

}  // namespace nibble::cuda
