// NCCL, loaded at run time: the build needs no NCCL header or library. ABI: NVIDIA/nccl's src/nccl.h.in.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "backend/rank_links.h"

namespace nibble::cuda {

struct NcclComm;  // a rank's communicator, created by NCCL
struct NcclId {
  char bytes[sizeof(GroupId)];
};
enum class NcclType : int { kUint8 = 1, kFloat32 = 7 };

class Nccl {
 public:
  // `library`: path of the library; if empty, libnccl.so.2. `interface`: network interface by which ranks
  // find each other; if `interface` is empty or NCCL_SOCKET_IFNAME is set, NCCL chooses. Throws InputError if
  // NCCL is missing or unsuitable.
  static std::shared_ptr<const Nccl> load(const std::string& library, const std::string& interface = {});
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  const std::string& version() const { return version_; }  // for example "2.28.9"
  GroupId new_group() const;                               // makes an id by which ranks find each other
  // Throws InputError if `result`, returned by a function of NCCL, is an error. `what`: the operation, for
  // the message. `comm`: communicator whose last error is added to the message.
  void check(int result, const char* what, NcclComm* comm = nullptr) const;

  int (*get_version)(int*){nullptr};
  const char* (*get_error_string)(int){nullptr};
  const char* (*get_last_error)(NcclComm*){nullptr};
  int (*get_unique_id)(NcclId*){nullptr};
  int (*comm_init_rank)(NcclComm**, int num_ranks, NcclId, int rank){nullptr};
  int (*comm_get_async_error)(NcclComm*, int*){nullptr};
  int (*comm_abort)(NcclComm*){nullptr};
  int (*all_gather)(const void*, void*, size_t count, NcclType, NcclComm*, cudaStream_t){nullptr};
  int (*broadcast)(const void*, void*, size_t count, NcclType, int root, NcclComm*, cudaStream_t){nullptr};
  int (*send)(const void*, size_t count, NcclType, int to, NcclComm*, cudaStream_t){nullptr};
  int (*receive)(void*, size_t count, NcclType, int from, NcclComm*, cudaStream_t){nullptr};
  int (*group_start)(){nullptr};
  int (*group_end)(){nullptr};

 private:
  Nccl() = default;
  std::string version_;
};

}  // namespace nibble::cuda
