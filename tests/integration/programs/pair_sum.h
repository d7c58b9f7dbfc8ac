// A sum over processes r and r + WORLD_SIZE / 2. The program itself computes it with NCCL, as
// data-parallel wrappers do. PAIR_SUM says on which stream the sum runs:
//
//   same     the default stream, like the program's other work
//   ordered  another stream; events prevent the sum and other work from running at the same time
//   apart    another stream, without events; half of the processes begin the sum late, the others
//            begin their other work late, so that processes begin the two in different orders
//
// Processes meet through a file in TMPDIR.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "check_calls.h"

class PairSum {
 public:
  PairSum(const char* kind, int rank, int ranks) : kind_(kind), rank_(rank), pairs_(ranks / 2) {
    void* const nccl = dlopen("libnccl.so.2", RTLD_NOW);
    Require(nccl != nullptr, dlerror());
    const auto make =
        reinterpret_cast<int (*)(void**, int, Id, int)>(dlsym(nccl, "ncclCommInitRank"));
    sum_ = reinterpret_cast<Sum>(dlsym(nccl, "ncclAllReduce"));
    end_ = reinterpret_cast<int (*)(void*)>(dlsym(nccl, "ncclCommDestroy"));
    Require(make != nullptr && sum_ != nullptr && end_ != nullptr, "NCCL lacks a function");
    Require(make(&pair_, 2, Meet(nccl), rank / pairs_) == 0, "ncclCommInitRank failed");
    if (kind_ != "same") CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    CHECK_CUDA(cudaMalloc(&data_, 2 * sizeof(double)));
    const double mine = rank;
    CHECK_CUDA(cudaMemcpy(data_, &mine, sizeof mine, cudaMemcpyHostToDevice));
  }
  PairSum(const PairSum&) = delete;
  PairSum& operator=(const PairSum&) = delete;

  void Enqueue() {
    if (kind_ == "ordered") Order(nullptr, stream_);
    const bool late = rank_ / pairs_ != rank_ % 2;
    if (kind_ == "apart") CHECK_CUDA(cudaLaunchHostFunc(late ? stream_ : nullptr, Sleep, nullptr));
    constexpr int kDouble = 8, kAdd = 0;
    Require(sum_(data_, data_ + 1, 1, kDouble, kAdd, pair_, stream_) == 0, "ncclAllReduce failed");
    if (kind_ == "ordered") Order(stream_, nullptr);
  }
  // Waits for the device. Ends the program with an error if the last sum is wrong.
  void End() {
    double sum = 0;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(&sum, data_ + 1, sizeof sum, cudaMemcpyDeviceToHost));
    Require(sum == 2 * (rank_ % pairs_) + pairs_, "the sum over a pair is wrong");
    Require(end_(pair_) == 0, "ncclCommDestroy failed");
  }

 private:
  struct Id {
    char bytes[128];
  };
  using Sum = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);

  static void Require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "pair_sum: %s\n", what);
    std::exit(1);
  }
  static void Sleep(void*) { usleep(300000); }

  // Returns the communicator's identifier. The process with the lower rank creates it, the other
  // process reads it.
  Id Meet(void* nccl) const {
    const char* const folder = std::getenv("TMPDIR");
    Require(folder != nullptr, "TMPDIR says where processes meet");
    const std::string path = std::string(folder) + "/pair-" + std::to_string(rank_ % pairs_);
    Id id = {};
    if (rank_ < pairs_) {
      const auto fill = reinterpret_cast<int (*)(Id*)>(dlsym(nccl, "ncclGetUniqueId"));
      Require(fill != nullptr && fill(&id) == 0, "ncclGetUniqueId failed");
      std::ofstream(path + ".new", std::ios::binary).write(id.bytes, sizeof id.bytes);
      Require(std::rename((path + ".new").c_str(), path.c_str()) == 0, "the file cannot be named");
      return id;
    }
    for (int waits = 0; access(path.c_str(), R_OK) != 0; ++waits) {
      Require(waits < 12000, "the other process writes no file");
      usleep(10000);
    }
    std::ifstream(path, std::ios::binary).read(id.bytes, sizeof id.bytes);
    unlink(path.c_str());
    return id;
  }
  // Makes later work on `after` wait for the present work on `before`.
  void Order(cudaStream_t before, cudaStream_t after) const {
    CHECK_CUDA(cudaEventRecord(event_, before));
    CHECK_CUDA(cudaStreamWaitEvent(after, event_, 0));
  }

  const std::string kind_;
  const int rank_, pairs_;
  void* pair_ = nullptr;
  Sum sum_ = nullptr;
  int (*end_)(void*) = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  double* data_ = nullptr;
};
