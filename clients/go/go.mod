module leveret

go 1.19
