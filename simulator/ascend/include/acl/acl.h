/* The part of AscendCL that the simulator has. Names, values and signatures are those of CANN's own headers, so a
 * program compiles against either. For machines without CANN; with CANN, use its headers and link the simulator.
 * Written from the interface, not copied. C and C++. */
#pragma once

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"
