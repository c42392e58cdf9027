// Implements the part of cuBLAS that examples/train_cuda.cu uses, on the GPU in software. Matrices are column-major.
#pragma once

#include <cstddef>

#include "support/software_cuda/cuda_runtime.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

struct SoftwareBlas {
  cudaStream_t stream = nullptr;
};
using cublasHandle_t = SoftwareBlas*;

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new SoftwareBlas;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

// Computes c[m,n] = alpha op(a)[m,k] op(b)[k,n] + beta c.
inline cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                  int k, const double* alpha, const double* a, int lda, const double* b, int ldb,
                                  const double* beta, double* c, int ldc) {
  const auto multiply = [=, alpha = *alpha, beta = *beta] {
    const auto at = [](const double* matrix, cublasOperation_t op, int leading, int row, int column) {
      return op == CUBLAS_OP_N ? matrix[static_cast<std::ptrdiff_t>(column) * leading + row]
                               : matrix[static_cast<std::ptrdiff_t>(row) * leading + column];
    };
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int i = 0; i < k; ++i) sum += at(a, op_a, lda, row, i) * at(b, op_b, ldb, i, column);
        double& result = c[static_cast<std::ptrdiff_t>(column) * ldc + row];
        result = alpha * sum + (beta == 0 ? 0 : beta * result);
      }
    }
  };
  software_cuda::put(handle->stream, multiply);
  return CUBLAS_STATUS_SUCCESS;
}
