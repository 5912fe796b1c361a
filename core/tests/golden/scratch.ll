; scratch: no actions
define internal void @"scratch.body"(ptr noalias %data0, ptr noalias readonly %data1, i64 %var.n) #0 {
entry:
  %local0 = alloca [12 x float], align 64
  %acc0 = alloca float
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, %var.n
  br i1 %more1, label %loop0, label %exit0
loop0:
  %mul2 = mul nsw i64 %r0, 12
  store float 0xFFF0000000000000, ptr %acc0
  br label %head1
head1:
  %r1 = phi i64 [ 0, %loop0 ], [ %next1, %latch1 ]
  %more3 = icmp slt i64 %r1, 12
  br i1 %more3, label %loop1, label %exit1
loop1:
  %add4 = add nsw i64 %mul2, %r1
  %p5 = getelementptr inbounds float, ptr %data1, i64 %add4
  %load6 = load float, ptr %p5, align 4
  %p7 = getelementptr inbounds float, ptr %local0, i64 %r1
  store float %load6, ptr %p7, align 4
  %old8 = load float, ptr %acc0
  %call9 = call nsz float @llvm.maximum.f32(float %load6, float %old8)
  store float %call9, ptr %acc0
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  br label %head1
exit1:
  %get10 = load float, ptr %acc0
  br label %head2
head2:
  %r2 = phi i64 [ 0, %exit1 ], [ %next2, %latch2 ]
  %more11 = icmp slt i64 %r2, 12
  br i1 %more11, label %loop2, label %exit2
loop2:
  %p12 = getelementptr inbounds float, ptr %local0, i64 %r2
  %load13 = load float, ptr %p12, align 4
  %add14 = add nsw i64 %mul2, %r2
  %sub15 = fsub float %load13, %get10
  %p16 = getelementptr inbounds float, ptr %data0, i64 %add14
  store float %sub15, ptr %p16, align 4
  br label %latch2
latch2:
  %next2 = add nuw nsw i64 %r2, 1
  br label %head2
exit2:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
exit0:
  ret void
}

define void @"scratch"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %where0 = getelementptr i64, ptr %variables, i64 0
  %var.n = load i64, ptr %where0
  call void @"scratch.body"(ptr %data0, ptr %data1, i64 %var.n)
  ret void
}

declare float @llvm.maximum.f32(float, float)
attributes #0 = { nounwind "prefer-vector-width"="256" }
