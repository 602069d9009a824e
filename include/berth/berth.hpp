// Everything of the core library (floors 0-5).
#pragma once

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/hook.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/graph/arena.hpp"
#include "berth/graph/graph.hpp"
#include "berth/plan/bound.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "berth/pool/memory_source.hpp"
#include "berth/pool/pool.hpp"
#include "berth/rules/placement.hpp"
