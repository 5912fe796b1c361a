; plain: no actions
define internal void @"plain.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %p1 = getelementptr inbounds float, ptr %data1, i64 %r0
  %load2 = load float, ptr %p1, align 4
  %add3 = fadd float %load2, 3.0
  %p4 = getelementptr inbounds float, ptr %data0, i64 %r0
  store float %add3, ptr %p4, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more5 = icmp slt i64 %next0, 5
  br i1 %more5, label %loop0, label %exit0
exit0:
  ret void
}

define void @"plain"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"plain.body"(ptr %data0, ptr %data1)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
