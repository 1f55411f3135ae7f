module opsgate/tools/dist

go 1.26.0
