; running_sum: no actions
define internal void @"running_sum.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  %acc0 = alloca i32
  store i32 0, ptr %acc0
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %get1 = load i32, ptr %acc0
  %p2 = getelementptr inbounds i32, ptr %data1, i64 %r0
  %load3 = load i32, ptr %p2, align 4
  %old4 = load i32, ptr %acc0
  %add5 = add i32 %old4, %load3
  store i32 %add5, ptr %acc0
  %mul6 = mul i32 %get1, 2
  %add7 = add i32 %mul6, %load3
  %p8 = getelementptr inbounds i32, ptr %data0, i64 %r0
  store i32 %add7, ptr %p8, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more9 = icmp slt i64 %next0, 9
  br i1 %more9, label %loop0, label %exit0
exit0:
  ret void
}

define void @"running_sum"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"running_sum.body"(ptr %data0, ptr %data1)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
