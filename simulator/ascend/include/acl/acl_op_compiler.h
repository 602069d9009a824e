/* The simulator compiles no operator; programs include it by habit. See acl.h. */
#pragma once

#include "acl/acl_op.h"
